//! The files of the scene, and how each becomes a texture.
//!
//! ```text
//!   floor.ktx2   BC7, 128 × 128, 8 mip levels    ─╮  to the device as they are,
//!   sky.ktx2     BC7, a cube of 64, 7 mip levels ─┴► or decoded on the way, where the device lacks BC7
//!   crate.png    64 × 64 ──► RGBA8, and the mip levels are made here
//! ```

#![forbid(unsafe_code)]

use allotment::Gpu;
use allotment::device::{DescriptorDevice, DeviceError, ImageDesc, ImagePart, ImageRegion};
use allotment::memory::Image;
use allotment::upload::{ImageWrite, UploadHandle};
use allotment::{AllocationOptions, MemoryUsage};
use allotment_readers::DescriptorReader;

use crate::Failure;

/// What a file of the scene is.
pub(crate) struct File {
    pub(crate) name: &'static str,
    bytes: &'static [u8],
}

macro_rules! file {
    ($name:literal) => {
        File { name: $name, bytes: include_bytes!(concat!("assets/", $name)) }
    };
}

/// In the program, so that it runs from any folder. `scripts/scene-textures` makes them.
pub(crate) static FILES: [File; 3] = [file!("floor.ktx2"), file!("crate.png"), file!("sky.ktx2")];

/// The numbers of the formats of textures: those of the device's API.
#[derive(Clone, Copy)]
pub(crate) struct Formats {
    pub(crate) rgba8: u32,
    /// `None` where the device lacks it.
    pub(crate) bc7: Option<u32>,
}

impl Formats {
    /// Asks the device for what it has.
    pub(crate) fn of<D: DescriptorDevice, R: DescriptorReader<D>>(device: &D) -> Result<Self, DeviceError> {
        let mut formats = Self { rgba8: R::RGBA8, bc7: R::BC7 };
        if let Some(bc7) = formats.bc7 {
            match device.image_requirements(&ImageDesc::new_cube(64, bc7).into()) {
                Ok(_) => {}
                Err(DeviceError::Unsupported) => formats.bc7 = None,
                Err(error) => return Err(error),
            }
        }
        Ok(formats)
    }
}

/// What loads a file: its texels are staged by the thread that calls, and copied while frames run.
pub(crate) struct Loader<'a, D: DescriptorDevice> {
    pub(crate) gpu: &'a Gpu<D>,
    pub(crate) formats: Formats,
    /// Tells when the texels have arrived.
    pub(crate) arrives: &'a UploadHandle,
}

impl<D: DescriptorDevice> Loader<'_, D> {
    /// Creates the image of a file, and writes its texels.
    pub(crate) fn load(&self, file: &File) -> Result<Image<D>, Failure> {
        let options = MemoryUsage::GpuOnly.with_name(file.name);
        if file.name.ends_with(".png") {
            return self.load_png(&png_levels(file)?, &options);
        }
        let ktx = Ktx::new(file)?;
        match self.formats.bc7 {
            Some(bc7) => self.load_ktx(bc7, &ktx, &options),
            None => self.decode_ktx(&ktx, &options),
        }
    }

    /// Each level of the file is one call. The library knows blocks, rows and faces.
    fn load_ktx(&self, bc7: u32, ktx: &Ktx, options: &AllocationOptions) -> Result<Image<D>, Failure> {
        let image = self.gpu.create_image(&ktx.desc(bc7).into(), options)?;
        let uploads = self.gpu.uploads().with_handle(self.arrives);
        for (level, texels) in (0..).zip(ktx.levels()) {
            let part = ImagePart::default().with_mip_levels(level..level + 1);
            uploads.write_image_part(&image, &part.into(), texels)?;
        }
        Ok(image)
    }

    /// Decoded into staging memory, row by row.
    fn decode_ktx(&self, ktx: &Ktx, options: &AllocationOptions) -> Result<Image<D>, Failure> {
        let image = self.gpu.create_image(&ktx.desc(self.formats.rgba8).into(), options)?;
        let levels: Vec<_> = ktx.levels().collect();
        let mut decoder = Decoder::default();
        let uploads = self.gpu.uploads().with_handle(self.arrives);
        uploads.write_image_with(&image, &ImageWrite::default(), |rows| {
            let ImageRegion { mip_level, array_layer, origin: [_, first, _], .. } = *rows.region();
            for (y, row) in (first..).zip(rows.rows_mut()) {
                decoder.row(levels[mip_level as usize], [ktx.side(mip_level), array_layer, y], row);
            }
            Ok(())
        })?;
        Ok(image)
    }

    /// All levels at once, the largest first.
    fn load_png(&self, levels: &[Level], options: &AllocationOptions) -> Result<Image<D>, Failure> {
        let desc = ImageDesc::new(levels[0].side, levels[0].side, self.formats.rgba8).with_full_mips();
        let image = self.gpu.create_image(&desc.into(), options)?;
        let texels: Vec<_> = levels.iter().map(|level| &level.texels[..]).collect();
        self.gpu.uploads().with_handle(self.arrives).write_image(&image, &texels.concat())?;
        Ok(image)
    }
}

/// A KTX2 file of square BC7 textures: a 2D one, or a cube.
struct Ktx(ktx2::Reader<&'static [u8]>);

impl Ktx {
    fn new(file: &File) -> Result<Self, Failure> {
        let reader = ktx2::Reader::new(file.bytes).map_err(|error| format!("{}: {error:?}", file.name))?;
        let header = reader.header();
        let is_known = header.format == Some(ktx2::Format::BC7_UNORM_BLOCK)
            && header.supercompression_scheme.is_none()
            && header.pixel_width == header.pixel_height;
        if is_known { Ok(Self(reader)) } else { Err(format!("{}: {header:?}", file.name).into()) }
    }

    /// Describes an image of the file in a format.
    fn desc(&self, format: u32) -> ImageDesc {
        let header = self.0.header();
        let desc = match header.face_count {
            6 => ImageDesc::new_cube(header.pixel_width, format),
            _ => ImageDesc::new(header.pixel_width, header.pixel_height, format),
        };
        desc.with_mip_levels(header.level_count)
    }

    /// Returns the blocks of each level, the largest first: in each, face after face.
    fn levels(&self) -> impl Iterator<Item = &[u8]> {
        self.0.levels().map(|level| level.data)
    }

    fn side(&self, level: u32) -> u32 {
        (self.0.header().pixel_width >> level).max(1)
    }
}

/// Decodes BC7, a row of blocks at a time.
#[derive(Default)]
struct Decoder {
    /// Which row of blocks was decoded last: the side of its level, its face, and its number. And its four rows of texels.
    last: Option<[usize; 3]>,
    texels: Vec<u8>,
}

impl Decoder {
    /// Writes a row of texels of a level of square faces.
    fn row(&mut self, level: &[u8], [side, face, y]: [u32; 3], row: &mut [u8]) {
        let [side, face, y] = [side, face, y].map(|number| number as usize);
        let across = side.div_ceil(4);
        // Bytes of a row of blocks, and also of a row of their texels.
        let pitch = across * 16;
        let wanted = Some([side, face, y / 4]);
        if self.last != wanted {
            self.last = wanted;
            let blocks = &level[(face * across + y / 4) * pitch..][..pitch];
            self.texels.resize(4 * pitch, 0);
            for (at, block) in blocks.chunks_exact(16).enumerate() {
                bcdec_rs::bc7(block, &mut self.texels[16 * at..], pitch);
            }
        }
        row.copy_from_slice(&self.texels[y % 4 * pitch..][..4 * side]);
    }
}

/// A mip level on the CPU: RGBA8, face after face.
#[derive(Clone)]
pub(crate) struct Level {
    pub(crate) side: u32,
    texels: Vec<u8>,
}

impl Level {
    /// Returns a texel of a face.
    pub(crate) fn texel(&self, face: u32, [x, y]: [u32; 2]) -> [u8; 4] {
        let [side, face, x, y] = [self.side, face, x, y].map(|number| number as usize);
        let at = 4 * ((face * side + y) * side + x);
        core::array::from_fn(|channel| self.texels[at + channel])
    }

    /// Returns the next level: each texel is the average of four.
    fn half(&self) -> Self {
        let side = self.side / 2;
        let texel = |x, y| {
            let four =
                [[0, 0], [1, 0], [0, 1], [1, 1]].map(|[dx, dy]| self.texel(0, [2 * x + dx, 2 * y + dy]));
            let sum = |channel| four.iter().map(|texel: &[u8; 4]| u32::from(texel[channel])).sum::<u32>();
            [0, 1, 2, 3].map(|channel| ((sum(channel) + 2) / 4) as u8)
        };
        let texels = (0..side * side).flat_map(|i| texel(i % side, i / side)).collect();
        Self { side, texels }
    }
}

/// Returns all levels of a file as the GPU must show them, decoded on the CPU.
pub(crate) fn decoded(file: &File) -> Result<Vec<Level>, Failure> {
    if file.name.ends_with(".png") {
        return png_levels(file);
    }
    let ktx = Ktx::new(file)?;
    let faces = ktx.desc(0).array_layers;
    let mut decoder = Decoder::default();
    let level = |(level, blocks)| {
        let side = ktx.side(level);
        let mut texels = vec![0; (faces * side * side * 4) as usize];
        let rows = (0..faces).flat_map(|face| (0..side).map(move |y| [side, face, y]));
        for (at, row) in rows.zip(texels.chunks_exact_mut(4 * side as usize)) {
            decoder.row(blocks, at, row);
        }
        Level { side, texels }
    };
    Ok((0..).zip(ktx.levels()).map(level).collect())
}

/// Reads a square picture, and makes its mip levels.
fn png_levels(file: &File) -> Result<Vec<Level>, Failure> {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(file.bytes));
    decoder.set_transformations(png::Transformations::normalize_to_color8() | png::Transformations::ALPHA);
    let mut reader = decoder.read_info()?;
    let mut texels = vec![0; reader.output_buffer_size().ok_or("the picture is too large")?];
    let info = reader.next_frame(&mut texels)?;
    if info.color_type != png::ColorType::Rgba || info.width != info.height || !info.width.is_power_of_two() {
        return Err(format!("{}: {info:?}", file.name).into());
    }
    let mut levels = vec![Level { side: info.width, texels }];
    while let Some(level) = levels.last().filter(|level| level.side > 1) {
        levels.push(level.half());
    }
    Ok(levels)
}
