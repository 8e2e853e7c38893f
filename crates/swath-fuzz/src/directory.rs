//! Reads the header, the directories and all tag values of any bytes.

use swath_tiff::{BlockTable, Header, Ifd, ImageLayout, Limits, Roles, read_chain};

/// Reads everything of the container and no pixel.
pub fn run(data: &[u8]) {
    let mut limits = Limits::default();
    limits.max_ifds = 16;
    limits.max_tag_bytes = 1 << 16;
    let Ok(header) = Header::read(data) else { return };
    let Ok(chain) = read_chain(data, header, &limits) else { return };
    assert!(!chain.links.is_empty());
    let roles = Roles::of(&chain, data, &limits);
    assert!(roles.images.len() <= chain.links.len());
    for link in &chain.links {
        read_tags(&link.ifd, data, &limits);
        for sub in &link.subs {
            read_tags(sub, data, &limits);
        }
    }
}

fn read_tags(ifd: &Ifd, data: &[u8], limits: &Limits) {
    let fields = ifd.fields(data, limits);
    for entry in ifd.entries.iter().take(64) {
        let _ = (fields.value(entry.tag), fields.uints(entry.tag), fields.floats(entry.tag));
        let _ = (fields.ints(entry.tag), fields.uint(entry.tag), fields.text(entry.tag), entry.offset());
    }
    if let Ok(layout) = ImageLayout::read(ifd, data, limits) {
        let _ = (layout.alpha_band(), layout.block_samples(), layout.format());
        assert!(layout.grid.width > 0 && layout.grid.height > 0);
        read_table(&layout.table, data);
    }
}

fn read_table(table: &BlockTable, data: &[u8]) {
    let mut spans = Vec::new();
    let _ = table.spans(data, 0, 16, &mut spans);
    for span in &spans {
        let _ = span.is_sparse();
    }
}
