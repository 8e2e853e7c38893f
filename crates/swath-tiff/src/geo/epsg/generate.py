"""Writes the code tables beside it from a PROJ database (pyproj's). Run: python generate.py OUTPUT_DIRECTORY

The tables are not a copy of the EPSG Dataset: they hold what a GeoTIFF needs to be named and described without one, that
is the two-dimensional geographic systems, the UTM families, and the named grids: every projection except the zones of
Transverse Mercator families, and one realisation of each datum.
"""

import os
import re
import sqlite3
import sys
from decimal import Decimal

import pyproj

out = sys.argv[1]
db = sqlite3.connect(os.path.join(pyproj.datadir.get_data_dir(), "proj.db"))
version = db.execute("select value from metadata where key='EPSG.VERSION'").fetchone()[0]


def write(name, columns, lines):
    with open(os.path.join(out, name), "w", newline="\n") as f:
        f.write(f"# Selected from the EPSG Dataset {version} (IOGP) by generate.py.\n# {columns}\n")
        f.write("".join(line + "\n" for line in lines))


# EPSG method -> (method of names.rs, EPSG parameter codes in that method's order)
NAT, FALSE = [8801, 8802], [8806, 8807]
ORIGIN2 = [8821, 8822, 8823, 8824, 8826, 8827]
CENTRE = [8811, 8812, 8813, 8814, 8815]
METHODS = {
    9807: ("TM", NAT + [8805] + FALSE),
    9808: ("TMS", NAT + [8805] + FALSE),
    9802: ("LCC2", ORIGIN2),
    9801: ("LCC1", NAT + [8805] + FALSE),
    9822: ("AEA", ORIGIN2),
    9806: ("CASS", NAT + FALSE),
    9829: ("PSB", [8832, 8833] + FALSE),
    9810: ("PSA", NAT + [8805] + FALSE),
    9809: ("OST", NAT + [8805] + FALSE),
    9812: ("HOMA", CENTRE + FALSE),
    9815: ("HOMB", CENTRE + [8816, 8817]),
    9820: ("LAEA", NAT + FALSE),
    1027: ("LAEA", NAT + FALSE),
    9804: ("MERC1", NAT + [8805] + FALSE),
    9805: ("MERC2", [8823, 8802] + FALSE),
    9818: ("POLY", NAT + FALSE),
    1125: ("AEQD", NAT + FALSE),
    9811: ("NZMG", NAT + FALSE),
    9835: ("CEA", [8823, 8802] + FALSE),
    1028: ("EQC", [None, 8802, 8823] + FALSE),
    1029: ("EQC", [None, 8802, 8823] + FALSE),
    9813: ("LAB", [8811, 8812, 8813, 8815] + FALSE),
    1024: ("WEBM", NAT + FALSE),
}
ZONE = re.compile(r"UTM|Gauss|zone \d+[NSEW]?$|CM |TM ?\d+(?![\d.]* gon)|Lo\d|CRTM|MTM|GK")
NATIONAL = re.compile(r"MGA zone|TM35FIN")
REALISATION = re.compile(r"NAD83\(|SIRGAS-|ETRS89-[A-Z]{3} |MOMRA|ITRF")
LENGTHS, SCALES = {8806, 8807, 8816, 8817, 8826, 8827}, {8805, 8815}


def degrees(value, uom):
    if uom == 9110:  # sexagesimal DDD.MMSSsss
        whole, _, part = format(abs(Decimal(repr(value))), "f").partition(".")
        part = part.ljust(4, "0")
        angle = Decimal(whole) + Decimal(part[:2]) / 60 + Decimal(part[2:4] + "." + (part[4:] or "0")) / 3600
        return float(-angle if value < 0 else angle)
    return float(Decimal(repr(value)) * Decimal("0.9")) if uom == 9105 else value


def number(x):
    text = "%.15g" % x
    return text[1:] if text.startswith("0.") else text


def definition(row):
    name, order = METHODS[row[1]]
    given = {row[2 + 3 * i]: (row[3 + 3 * i], row[4 + 3 * i]) for i in range(7) if row[2 + 3 * i]}
    units = {u for c, (v, u) in given.items() if c in LENGTHS and v} or {u for c, (_, u) in given.items() if c in LENGTHS}
    if len(units) > 1 or any(c is not None and c not in given for c in order):
        return None
    values = []
    for code in order:
        value, uom = given.get(code, (0, 9102))
        if code in SCALES:
            value *= 1e-6 if uom == 9202 else 1
        elif code not in LENGTHS:
            value = degrees(value, uom)
        values.append(number(value))
    return f"{name} {units.pop()} " + " ".join(values)


units, axes = {}, {}  # Of a coordinate system: the unit of its first axis, and (name, direction) of each
for code, unit, name, orientation in db.execute(
    """select coordinate_system_code, uom_code, name, orientation from axis where coordinate_system_auth_name='EPSG'
       order by coordinate_system_code, coordinate_system_order"""
):
    units.setdefault(code, unit)
    axes.setdefault(code, []).append((name, orientation.lower()))


def directions(cs):
    """The axes of a map: the first letters of where they point (north for "North along 90°E"), none for east-north."""
    (first, towards), (_, other) = axes[cs]
    letters = towards[0] + other[0]
    reverse = letters in ("nn", "ss") and first == "Northing"
    return "" if letters == "en" else letters + ("r" if reverse else "")


fields = ",".join(f"param{i}_code,param{i}_value,param{i}_uom_code" for i in range(1, 8))
conversions = {}
conversion_names = {}
for row in db.execute(f"select code,method_code,{fields},name from conversion where auth_name='EPSG'"):
    conversion_names[row[0]] = row[-1]
    if row[1] in METHODS and (text := definition(row)):
        conversions[row[0]] = text

datums = db.execute(
    """select g.code, g.name, d.code, d.name, d.ellipsoid_code, d.prime_meridian_code, g.coordinate_system_code, g.deprecated
       from geodetic_crs g join geodetic_datum d on d.auth_name=g.datum_auth_name and d.code=g.datum_code
       where g.auth_name='EPSG' and g.type='geographic 2D' order by cast(g.code as int)"""
).fetchall()
names = {row[0]: row[1] for row in datums}

projected = db.execute(
    """select code,name,geodetic_crs_code,conversion_code,coordinate_system_code,deprecated from projected_crs
       where auth_name='EPSG' and cast(code as int) < 65536 order by cast(code as int)"""
).fetchall()
utm, foreign, lines, used_gcs, used_conversions = [], [], [], set(), set()
last = None
for code, name, gcs, conversion, cs, deprecated in projected:
    number_, unit = int(code), units[cs]
    if unit != 9001:
        if foreign and last == foreign[-1][1] and foreign[-1][2] == unit:
            foreign[-1][1] = number_
        else:
            foreign.append([number_, number_, unit])
    last = number_
    zone = int(conversion) - 16000
    if (1 <= zone <= 60 or 101 <= zone <= 160) and unit == 9001:
        flag = directions(cs) + ("d" if deprecated else "")
        if utm and utm[-1][0] == gcs and utm[-1][4] == flag and utm[-1][2] + 1 == zone and number_ - utm[-1][3] == zone - utm[-1][1]:
            utm[-1][2] = zone
        else:
            utm.append([gcs, zone, zone, number_, flag])
        used_gcs.add(gcs)
        continue
    family = conversion in conversions and conversions[conversion].startswith("TM ") and ZONE.search(conversion_names[conversion])
    family = family and not NATIONAL.search(name)
    plane = 10100 < int(conversion) < 15400 and gcs in (4267, 4269)
    if conversion not in conversions or ((family or deprecated or REALISATION.search(name)) and not plane):
        continue
    used_gcs.add(gcs)
    used_conversions.add(conversion)
    base = names.get(gcs, "\0") + " / "
    flags = directions(cs) + ("d" if deprecated else "")
    short = "~" + name[len(base) :] if name.startswith(base) else name
    lines.append(f"{code}|{gcs}|{conversion}|{'' if unit == 9001 else unit}|{flags}|{short}")
flags = "where the axes point (en if not given), r northing first though both point the same way, d deprecated"
write("projected.txt", f"code|geographic|conversion|unit, metre if empty|{flags}|name, ~: geographic name + ' / '", lines)
write("conversions.txt", "code method, unit of lengths, parameters in the method's order (angles in degrees)",
      [f"{c} {conversions[c]}" for c in sorted(used_conversions, key=int)])
write("utm.txt", "code of the first zone, geographic, zone from (south + 100), zone to, flags as in projected.txt",
      [f"{c} {g} {a} {b} {f}".rstrip() for g, a, b, c, f in utm])
write("units.txt", "first projected code, last, unit: every one that is not in metres", [f"{a} {b} {u}" for a, b, u in foreign])

other = {"geographic 3D": {}, "geocentric": {}}
for kind, code, datum in db.execute(
    "select type,code,datum_code from geodetic_crs where auth_name='EPSG' and type!='geographic 2D' and deprecated=0 order by cast(code as int)"
):
    other[kind].setdefault(datum, code)
lines = []
for code, name, datum, datum_name, ellipsoid, meridian, cs, deprecated in datums:
    if code not in used_gcs and deprecated:
        continue
    datum_name = "WGS_1984" if datum_name == "World Geodetic System 1984 ensemble" else datum_name.removesuffix(" ensemble")
    unit = 9102 if units[cs] == 9122 else units[cs]
    flags = ("l" if axes[cs][0][1] == "east" else "") + ("d" if deprecated else "")
    lines.append("|".join(str(x) for x in (code, name, datum, datum_name, ellipsoid, meridian, unit,
                 other["geographic 3D"].get(datum, ""), other["geocentric"].get(datum, ""), flags)))
write("geographic.txt", "code|name|datum|datum name|ellipsoid|prime meridian|unit|3D code|geocentric code|l longitude first, d deprecated", lines)

factor = dict(db.execute("select code, conv_factor from unit_of_measure where auth_name='EPSG'"))
lines = []
for code, name, a, uom, inverse, b in db.execute(
    "select code,name,semi_major_axis,uom_code,inv_flattening,semi_minor_axis from ellipsoid where auth_name='EPSG' order by cast(code as int)"
):
    inverse = inverse if inverse is not None else 0 if b is None or a == b else a / (a - b)
    lines.append(f"{code}|{name}|{number(a * factor[uom])}|{number(inverse)}")
write("ellipsoids.txt", "code|name|semi-major axis in metres|inverse flattening, 0 for a sphere", lines)

lines = [
    f"{code}|{name}|{datum}|{datum_name}|{units[cs]}" + ("" if axes[cs][0][1] == "up" else f"|{axes[cs][0][0]}")
    for code, name, datum, datum_name, cs in db.execute(
        """select v.code,v.name,d.code,d.name,v.coordinate_system_code from vertical_crs v join vertical_datum d
           on d.auth_name=v.datum_auth_name and d.code=v.datum_code where v.auth_name='EPSG' and v.deprecated=0 order by cast(v.code as int)"""
    )
]
write("vertical.txt", "code|name|datum|datum name|unit|name of the axis if it points down", lines)
lines = [
    f"{h} {v} {code}"
    for code, h, v in db.execute(
        "select code, horiz_crs_code, vertical_crs_code from compound_crs where auth_name='EPSG' and deprecated=0 and horiz_crs_auth_name='EPSG'"
    )
]
write("compound.txt", "horizontal vertical compound", sorted(lines, key=lambda s: [int(x) for x in s.split()]))

kinds = {"geographic 2D": "g", "geographic 3D": "s", "geocentric": "x"}
coded = [(int(code), kinds[kind]) for code, kind in db.execute("select code, type from geodetic_crs where auth_name='EPSG'") if kind in kinds]
for table, kind in (("projected", "p"), ("vertical", "v"), ("compound", "c")):
    coded += [(int(code), kind) for (code,) in db.execute(f"select code from {table}_crs where auth_name='EPSG'")]
ranges = []
for code, kind in sorted(coded):
    if ranges and ranges[-1][1:] == [code - 1, kind]:
        ranges[-1][1] = code
    elif 1024 <= code < 32767:
        ranges.append([code, code, kind])
write("kinds.txt", "first code, last, what they all are: p projected, g geographic, s geographic 3D, x geocentric, v vertical, c compound",
      [f"{a} {b} {kind}" for a, b, kind in ranges])
