//! The role of each IFD: full resolution, overview, mask or page.

use crate::bytes::ReadAt;
use crate::ifd::{Chain, Ifd};
use crate::image::subfile_type;
use crate::limits::Limits;

const REDUCED: u32 = 1;
const MASK: u32 = 4;

/// One image (page) of a file and the IFDs that belong to it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ImageRoles<'a> {
    /// The IFD of the full resolution.
    pub full: &'a Ifd,
    /// Its overviews, in file order.
    pub overviews: Vec<&'a Ifd>,
    /// Its transparency mask.
    pub mask: Option<&'a Ifd>,
    /// The overviews of the mask, in file order.
    pub mask_overviews: Vec<&'a Ifd>,
}

/// The images of a file in file order; most files have one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Roles<'a> {
    /// The images; at least one.
    pub images: Vec<ImageRoles<'a>>,
}

impl<'a> Roles<'a> {
    /// Assigns a role to each IFD of a chain.
    ///
    /// The first IFD is always an image, whatever its NewSubfileType. A later IFD is an overview
    /// (NewSubfileType bit 0) or a mask (bit 2) of the image before it; otherwise it is a new image. SubIFDs
    /// are overviews if their NewSubfileType says so. Other SubIFDs (thumbnails of cameras, raw data) are
    /// ignored.
    pub fn of<R: ReadAt + ?Sized>(chain: &'a Chain, source: &R, limits: &Limits) -> Roles<'a> {
        let mut images: Vec<ImageRoles<'a>> = Vec::new();
        for link in &chain.links {
            let kind = subfile_type(&link.ifd.fields(source, limits));
            match images.last_mut() {
                Some(image) if kind & (MASK | REDUCED) != 0 => image.adopt(&link.ifd, kind),
                _ => images.push(ImageRoles {
                    full: &link.ifd,
                    overviews: Vec::new(),
                    mask: None,
                    mask_overviews: Vec::new(),
                }),
            }
            for sub in &link.subs {
                let kind = subfile_type(&sub.fields(source, limits));
                if let (Some(image), true) = (images.last_mut(), kind & (MASK | REDUCED) != 0) {
                    image.adopt(sub, kind);
                }
            }
        }
        Roles { images }
    }
}

impl<'a> ImageRoles<'a> {
    fn adopt(&mut self, ifd: &'a Ifd, kind: u32) {
        match (kind & MASK != 0, kind & REDUCED != 0) {
            (true, true) => self.mask_overviews.push(ifd),
            (true, false) => self.mask = self.mask.or(Some(ifd)),
            _ => self.overviews.push(ifd),
        }
    }
}
