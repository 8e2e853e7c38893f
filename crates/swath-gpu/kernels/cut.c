// Cuts rows of pixels into tiles (or strips) in the form that the compressor expects: padded, and as
// differences if a predictor is used.
//
// The parts of a tile share its samples in the order of the tile, and so do the items of a group: neighbouring
// items write neighbouring samples (with predictor 3 into each of its byte planes). Differences are computed
// from two source pixels, so no item waits for another. Pixels outside the image repeat the last one inside,
// which compresses to almost nothing. The next sample of an item is found by counting three digits up and not
// by another division.

#define CUT_PREDICTOR_NONE 1u
#define CUT_PREDICTOR_FLOAT 3u

KERNEL(256)
cut(GLOBAL const u8 *rows, u64 rows_at, u64 row_stride, u32 first_row, u32 end_row, u32 image_width, u32 bands,
    u32 size, GLOBAL u8 *tiles, u64 tiles_at, u64 tile_stride, u32 tile_width, u32 tile_height, u32 across, u32 planes,
    u32 block_row, u32 predictor, u32 unit, u32 parts) {
  u32 number = GRP / parts;
  u32 part = GRP - number * parts;
  u32 row_of_planes = number / across;
  u32 across_at = number - row_of_planes * across;
  u32 row_of_tiles = row_of_planes / planes;
  u32 plane = row_of_planes - row_of_tiles * planes;
  if (image_width == 0 || end_row <= first_row) return;

  // The unit that is moved at once: a unit of the differences, a whole float, or without a predictor up to 8
  // bytes.
  if (predictor == CUT_PREDICTOR_FLOAT) unit = size;
  if (predictor == CUT_PREDICTOR_NONE) unit = size < 8 ? size : 8;
  u32 tile_bands = planes == 1 ? bands : 1;
  u32 units = tile_bands * (size / unit);
  u64 pixel_bytes = (u64)bands * size;
  u64 tile_row_bytes = (u64)tile_width * tile_bands * size;
  u64 left = (u64)across_at * tile_width;
  u64 top = ((u64)block_row + row_of_tiles) * tile_height;
  GLOBAL u8 *to = tiles + tiles_at + number * tile_stride;
  GLOBAL const u8 *from = rows + rows_at + (planes == 1 ? 0 : (u64)plane * size);

  u32 line_pixels = tile_width;
  u64 last_col = image_width - 1;
  u32 vector = 0;
  if (predictor == CUT_PREDICTOR_NONE && tile_bands == bands && left + tile_width <= image_width) {
    // Rows of the tile are runs of bytes of the image: pixels are now the widest words that both allow.
    from += left * pixel_bytes;
    u64 all = (u64)from | (u64)to | row_stride | tile_row_bytes;
    unit = 16;
    while ((all & (unit - 1)) != 0) unit /= 2;
    vector = unit == 16;
    units = 1;
    pixel_bytes = unit;
    line_pixels = (u32)(tile_row_bytes / unit);
    last_col = line_pixels - 1;
    left = 0;
  }
  u32 typed_load = (((u64)from | row_stride | pixel_bytes) & (unit - 1)) == 0;
  u32 typed_store = (((u64)to | tile_row_bytes) & (unit - 1)) == 0;

  u64 line_units = (u64)units * line_pixels;
  u64 total = line_units * tile_height;
  u64 share = ((total + parts - 1) / parts + 255) / 256 * 256;
  u64 at = part * share + LID;
  u64 end = (part + 1) * share < total ? (part + 1) * share : total;
  if (at >= end) return;
  u64 pixel = at / units;
  u32 low = (u32)(at - pixel * units);
  u32 row = (u32)(pixel / line_pixels);
  u32 col = (u32)(pixel - (u64)row * line_pixels);
  u32 pixel_step = 256 / units;
  u32 low_step = 256 - pixel_step * units;
  u32 row_step = pixel_step / line_pixels;
  u32 col_step = pixel_step - row_step * line_pixels;

  for (; at < end; at += 256) {
    u64 image_row = top + row < end_row ? top + row : end_row - 1;
    u64 image_col = left + col < last_col ? left + col : last_col;
    GLOBAL const u8 *line = from + (image_row - first_row) * row_stride + (u64)low * unit;
    GLOBAL const u8 *source = line + image_col * pixel_bytes;
    u64 index = (u64)col * units + low;
    GLOBAL u8 *target = to + row * tile_row_bytes + index * unit;
    if (vector) {
      *(GLOBAL uint4 *)target = *(GLOBAL const uint4 *)source;
    } else if (predictor == CUT_PREDICTOR_NONE) {
      store_sample(target, load_sample(source, unit, typed_load), unit, typed_store);
    } else {
      // There is nothing before the first pixel; with byte planes, there is the last pixel of the previous
      // plane.
      u64 before_col = left + col - 1;
      if (col == 0) before_col = left + tile_width - 1;
      if (before_col > last_col) before_col = last_col;
      u64 before = load_sample(line + before_col * pixel_bytes, unit, typed_load);
      u64 value = load_sample(source, unit, typed_load);
      if (predictor == CUT_PREDICTOR_FLOAT) {
        if (col == 0) before >>= 8;
        target = to + row * tile_row_bytes + index;
        for (u32 k = 0; k < unit; k++) {
          u32 shift = 8 * (unit - 1 - k);
          target[k * line_units] = (u8)((value >> shift) - (before >> shift));
        }
      } else {
        store_sample(target, col == 0 ? value : value - before, unit, typed_store);
      }
    }

    low += low_step;
    u32 carry = low >= units;
    low -= carry ? units : 0;
    col += col_step + carry;
    carry = col >= line_pixels;
    col -= carry ? line_pixels : 0;
    row += row_step + carry;
  }
}
