//! The rules as one table. The code, `swath validate --help`, the JSON and docs/validate.md are generated
//! from it or tested against it.

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The file is not a valid COG.
    Error,
    /// The file is a valid COG, but not under strict rules.
    Warning,
    /// The file can be improved.
    Note,
}

impl Severity {
    /// The name: `error`, `warning` or `note`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// The origin of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Authority {
    /// GDAL's `validate_cloud_optimized_geotiff --full-check=yes` reports an error.
    Gdal,
    /// `rio cogeo validate --strict` refuses the file.
    RioCogeo,
    /// OGC 21-026: a requirement.
    OgcShall,
    /// OGC 21-026: a recommendation.
    OgcShould,
    /// GDAL's description of the layout requires it, but GDAL's validator does not check it.
    Layout,
    /// Only Swath checks it: without it the file is damaged, or differs from what it declares.
    Swath,
}

impl Authority {
    /// The name: `GDAL`, `rio-cogeo`, `OGC shall`, `OGC should`, `GDAL layout` or `Swath`.
    pub fn name(self) -> &'static str {
        match self {
            Authority::Gdal => "GDAL",
            Authority::RioCogeo => "rio-cogeo",
            Authority::OgcShall => "OGC shall",
            Authority::OgcShould => "OGC should",
            Authority::Layout => "GDAL layout",
            Authority::Swath => "Swath",
        }
    }
}

macro_rules! rules {
    ($($variant:ident $id:literal $severity:ident [$($authority:ident),+] $sentence:literal;)*) => {
        /// A rule for Cloud Optimized GeoTIFF.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $(#[doc = $sentence] $variant,)*
        }

        impl Rule {
            /// All rules, in the order in which the check applies them.
            pub const ALL: &[Rule] = &[$(Rule::$variant),*];

            /// A short name that does not change between versions, such as `tile-leader`.
            pub fn id(self) -> &'static str {
                match self { $(Rule::$variant => $id,)* }
            }

            /// The severity of a violation.
            pub fn severity(self) -> Severity {
                match self { $(Rule::$variant => Severity::$severity,)* }
            }

            /// The origins of the rule.
            pub fn authorities(self) -> &'static [Authority] {
                match self { $(Rule::$variant => &[$(Authority::$authority),+],)* }
            }

            /// The rule as one sentence.
            pub fn sentence(self) -> &'static str {
                match self { $(Rule::$variant => $sentence,)* }
            }
        }
    };
}

rules! {
    FirstIfd "first-ifd" Error [Gdal]
        "The first IFD lies directly behind the header, or behind the ghost area where there is one.";
    GhostSyntax "ghost-syntax" Error [Gdal]
        "The ghost area starts with its size in six digits and lies inside the file.";
    Edition "edition" Error [Gdal, RioCogeo]
        "The ghost area does not say KNOWN_INCOMPATIBLE_EDITION=YES: no program changed the file after it became a COG.";
    GhostValue "ghost-value" Warning [Layout]
        "The ghost area declares LAYOUT=IFDS_BEFORE_DATA, and its keys have values that are defined.";
    GhostKey "ghost-key" Note [Layout]
        "The lines of the ghost area are KEY=VALUE with keys that are defined.";
    MaskDeclared "mask-declared" Warning [Layout]
        "Only a file with a mask says MASK_INTERLEAVED_WITH_IMAGERY=YES.";
    IfdChain "ifd-chain" Error [Swath]
        "The chain of IFDs comes to its end: each link leads to an IFD that was not read before.";
    Readable "readable" Error [Swath]
        "The IFDs of overviews and masks can be read.";
    Tiled "tiled" Error [Gdal, RioCogeo, OgcShall]
        "Images and overviews of more than 512 pixels across or down are stored in tiles.";
    TiledSmall "tiled-small" Warning [OgcShall]
        "Smaller images, overviews and masks are stored in tiles too.";
    SquareTiles "square-tiles" Warning [OgcShall]
        "Tiles are square.";
    TileSize "tile-size" Note [OgcShould]
        "Tiles are 256, 512 or 1024 pixels wide.";
    ExternalOverviews "external-overviews" Error [Gdal, RioCogeo]
        "Overviews lie in the file, not in an .ovr beside it.";
    ExternalMask "external-mask" Note [Swath]
        "The mask lies in the file, not in a .msk beside it.";
    Overviews "overviews" Warning [RioCogeo]
        "An image of more than 512 pixels across or down has overviews.";
    OverviewSize "overview-size" Error [Gdal, RioCogeo, OgcShall]
        "Each overview is smaller than the level before it.";
    OverviewFactor "overview-factor" Warning [OgcShall]
        "Each overview is 2 to 10 times smaller than the level before it.";
    LastOverview "last-overview" Warning [OgcShall]
        "The smallest overview is one tile across or one tile down.";
    MaskOverviews "mask-overviews" Warning [Layout]
        "Where the image has a mask, each overview has one of its size.";
    IfdOffsets "ifd-offsets" Error [Gdal, RioCogeo]
        "The IFDs of the image and its overviews lie in the file from large to small.";
    IfdOrder "ifd-order" Note [Layout]
        "IFDs come in the order image, mask, overviews, masks of overviews.";
    OneImage "one-image" Note [Swath]
        "The file holds one image; others are not checked.";
    Georeferenced "georeferenced" Warning [OgcShall]
        "The full resolution has a GeoKeyDirectory and a tie point with a pixel scale, or a transformation.";
    OverviewGeoreference "overview-georeference" Warning [OgcShall]
        "Only the full resolution has georeferencing tags.";
    BigTiffNeeded "bigtiff-needed" Warning [OgcShall]
        "A file of more than 4 GiB is a BigTIFF.";
    BigTiff "bigtiff" Note [OgcShould]
        "A file of less than 4 GiB is a classic TIFF.";
    BlockTable "block-table" Error [Swath]
        "Every block has an entry in tables of offsets and byte counts that lie in the file.";
    BlockSparse "block-sparse" Error [Swath]
        "A block that is not stored has neither an offset nor a size.";
    BlockInside "block-inside" Error [Swath]
        "Blocks lie inside the file.";
    BlockOverlap "block-overlap" Error [Swath]
        "Blocks lie neither on the header, IFDs and tags nor partly on each other.";
    BlockShared "block-shared" Note [Swath]
        "No two blocks are the same bytes of the file.";
    TileOrder "tile-order" Error [Gdal]
        "Blocks lie in row-major order where the ghost area says BLOCK_ORDER=ROW_MAJOR.";
    TileLeader "tile-leader" Error [Gdal]
        "The 4 bytes before a block are its size where the ghost area says BLOCK_LEADER=SIZE_AS_UINT4.";
    TileTrailer "tile-trailer" Error [Gdal]
        "The last 4 bytes of a block follow it again where the ghost area says BLOCK_TRAILER=LAST_4_BYTES_REPEATED.";
    MaskInterleaved "mask-interleaved" Error [Gdal]
        "A mask block follows its image block where the ghost area says MASK_INTERLEAVED_WITH_IMAGERY=YES.";
    IfdsBeforeData "ifds-before-data" Error [Gdal, RioCogeo]
        "The IFDs of the image and its overviews lie before the data.";
    ValuesBeforeData "values-before-data" Warning [Layout]
        "Block tables, other tag values and the IFDs of masks lie before the data.";
    DataOrder "data-order" Error [Gdal, RioCogeo, OgcShould]
        "Data lies in the file from the smallest overview to the full resolution.";
    DataApart "data-apart" Note [OgcShould]
        "The data of each level lies in one piece, not between that of others.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_documented_with_its_severity_and_authorities() {
        let documentation = include_str!("../../../../docs/validate.md");
        for rule in Rule::ALL {
            let authorities: Vec<_> = rule.authorities().iter().map(|authority| authority.name()).collect();
            let line = format!(
                "| `{}` | {} | {} | {} |",
                rule.id(),
                rule.severity().name(),
                authorities.join(", "),
                rule.sentence()
            );
            assert!(documentation.contains(&line), "docs/validate.md lacks the line\n{line}");
        }
    }

    #[test]
    fn ids_are_unique_and_sentences_end_with_a_full_stop() {
        for (i, rule) in Rule::ALL.iter().enumerate() {
            assert!(rule.sentence().ends_with('.') && rule.id().chars().all(|c| c == '-' || c.is_ascii_lowercase()));
            assert!(Rule::ALL[..i].iter().all(|other| other.id() != rule.id()), "{} twice", rule.id());
        }
    }
}
