//! Random calls about the texels of images: writes of whole images, of parts and of boxes, valid ones and others, and reads.
//!
//! Each outcome is compared with what [`Texels`] expects: a part that the image does not have is refused and changes nothing,
//! all others are written, and a write that ends early leaves the texels behind it as they were.

use core::time::Duration;
use std::io::{self, Read};
use std::time::Instant;

use allotment::device::{
    ImageAspect, ImageCopyError, ImageDataOrder, ImageDesc, ImagePart, ImageShape, SharingMode,
};
use allotment::memory::Image;
use allotment::upload::{
    FillError, ImageWrite, Interruption, ReadError, ReadHandle, ReadStatus, UploadError, UploadHandle,
    UploadStatus, Uploader, WhenFull,
};
use allotment::{AllocationOptions, Gpu, MemoryUsage};

use crate::texels::{Expected, Known, TexelBox, TexelValues, Texels, difference};
use crate::{Input, Stressed, raw};

/// A format of images that are copied.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ImageFormat {
    /// The API's number.
    pub number: u32,
    /// The API's usage flags that such images have.
    pub usage: u64,
    /// The values of its texels.
    pub values: TexelValues,
}

impl ImageFormat {
    /// Describes a format whose texels can be anything.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self { number, usage: 0, values: TexelValues::Any }
    }

    /// Sets the usage flags.
    #[must_use]
    pub const fn with_usage(self, usage: u64) -> Self {
        Self { usage, ..self }
    }

    /// Sets the values of texels.
    #[must_use]
    pub const fn with_values(self, values: TexelValues) -> Self {
        Self { values, ..self }
    }
}

/// An image, and what its texels should be.
pub(crate) struct TestImage<D: Stressed> {
    image: Image<D>,
    is_exclusive: bool,
    texels: Texels,
    /// The state before it was forgotten.
    forgotten: Option<D::ImageState>,
}

/// A read on its way, and the bytes that it should have.
pub(crate) struct PendingRead {
    read: ReadHandle,
    expected: Vec<Expected>,
    about: String,
}

/// An upload on its way, and the status that it should end in, where that is known.
pub(crate) struct PendingUpload {
    handle: UploadHandle,
    expected: Option<UploadStatus>,
}

/// Returns a random description of an image, which a device need not have.
pub(crate) fn random_desc<D: Stressed>(input: &mut Input<'_>, device: &D, format: &ImageFormat) -> ImageDesc {
    let number = format.number;
    let side = if input.once_in(4) { 64 } else { 20 };
    let [width, height, depth] = [side, side, 9].map(|most| 1 + input.below(most) as u32);
    let mut desc = match input.below(8) {
        0 => ImageDesc::new_1d(width * 4, number),
        1 | 2 => ImageDesc::new_3d(width.min(20), height.min(20), depth, number),
        3 => ImageDesc::new_cube(width, number).with_array_layers(input.pick(&[6, 6, 12])),
        _ => ImageDesc::new(width, height, number).with_array_layers(1 + input.below(4) as u32),
    };
    desc = match input.below(4) {
        0 => desc,
        1 => desc.with_mip_levels(1 + input.below(4) as u32),
        _ => desc.with_full_mips(),
    };
    if input.once_in(64) {
        desc = desc.with_samples(4);
    }
    if !device.copies_parts_of_blocks() {
        let shape = device.image_shape(&desc.into());
        // Of sides that the smallest level still has in whole blocks.
        if let Some(block) = shape.texels.block(ImageAspect::Color)
            && block.width > 1
        {
            desc = desc.with_mip_levels(1 + desc.mip_levels % 3);
            let whole = |side: u32, of: u32| side.next_multiple_of(of << (desc.mip_levels - 1));
            desc.extent =
                [whole(desc.extent[0], block.width), whole(desc.extent[1], block.height), desc.extent[2]];
        }
    }
    let usage = if input.once_in(2) { device.host_write_usage() } else { 0 };
    desc = desc.with_usage(format.usage | usage);
    if input.once_in(2) { desc.with_sharing_mode(SharingMode::Concurrent) } else { desc }
}

/// Returns a random part of an image, or one that it does not have.
pub(crate) fn random_part(input: &mut Input<'_>, texels: &Texels) -> ImagePart {
    let &ImageShape { mip_levels, array_layers, .. } = texels.shape();
    let aspects: Vec<_> = texels.shape().texels.aspects().collect();
    let range = |input: &mut Input<'_>, count: u32| {
        let first = input.below(count.into()) as u32;
        first..first + 1 + input.below((count - first).into()) as u32
    };
    let mut part = ImagePart::default();
    if input.once_in(3) {
        part = part.with_order(ImageDataOrder::MipMajor);
    }
    match input.below(8) {
        0 | 1 => {}
        2 | 3 => {
            part.mip_levels = Some(range(input, mip_levels));
            part.array_layers = Some(range(input, array_layers));
            if input.once_in(3) {
                part.aspect = Some(input.pick(&aspects));
            }
        }
        _ => {
            let level = input.below(mip_levels.into()) as u32;
            part = part.with_mip_levels(level..level + 1);
            part.array_layers = Some(range(input, array_layers));
            let aspect = input.pick(&aspects);
            if aspects.len() > 1 || input.once_in(2) {
                part.aspect = Some(aspect);
            }
            if let Some((extent, block)) = texels.level(aspect, level) {
                part.region = Some(random_box(input, extent, [block.width, block.height, 1]));
            }
        }
    }
    if input.once_in(6) {
        break_part(input, &mut part, [mip_levels, array_layers]);
    }
    part
}

/// A box of whole blocks of a level.
fn random_box(input: &mut Input<'_>, level: [u32; 3], sides: [u32; 3]) -> ([u32; 3], [u32; 3]) {
    let (mut origin, mut extent) = ([0; 3], level);
    for axis in 0..3 {
        let blocks = level[axis].div_ceil(sides[axis]);
        let first = input.below(blocks.into()) as u32;
        let end = first + 1 + input.below((blocks - first).into()) as u32;
        origin[axis] = first * sides[axis];
        extent[axis] = (end * sides[axis]).min(level[axis]) - origin[axis];
    }
    (origin, extent)
}

/// Changes one number of a part, so that an image may no longer have it.
fn break_part(input: &mut Input<'_>, part: &mut ImagePart, [mip_levels, array_layers]: [u32; 2]) {
    let odd = |input: &mut Input<'_>, number: u32| match input.below(5) {
        0 => number.wrapping_add(1),
        1 => number.wrapping_sub(1),
        2 => 0,
        3 => u32::MAX,
        _ => number / 2,
    };
    match input.below(8) {
        0 => {
            let levels = part.mip_levels.clone().unwrap_or(0..mip_levels);
            part.mip_levels = Some(levels.start..odd(input, levels.end));
        }
        1 => {
            let layers = part.array_layers.clone().unwrap_or(0..array_layers);
            part.array_layers = Some(odd(input, layers.start)..layers.end);
        }
        2 => {
            let layers = part.array_layers.clone().unwrap_or(0..array_layers);
            part.array_layers = Some(layers.start..odd(input, layers.end));
        }
        3 => {
            use ImageAspect::{Color, Depth, Plane0, Plane2, Stencil};
            part.aspect = Some(input.pick(&[Color, Depth, Stencil, Plane0, Plane2]));
        }
        4 => part.mip_levels = None,
        _ => {
            let (mut origin, mut extent) = part.region.unwrap_or(([0; 3], [1; 3]));
            let axis = input.index(3);
            let number = if input.once_in(2) { &mut origin[axis] } else { &mut extent[axis] };
            *number = odd(input, *number);
            part.region = Some((origin, extent));
        }
    }
    // No more regions than anybody could wait for.
    for range in [&mut part.mip_levels, &mut part.array_layers].into_iter().flatten() {
        range.start = range.start.max(range.end.saturating_sub(64));
    }
}

/// Where the bytes of a write come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Slice,
    Reader,
    Closure,
}

/// What happens in a write, once some bytes were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Nothing,
    /// The handle is cancelled.
    Cancelled,
    /// The reader or the closure fails.
    Failed,
    /// The slice has another length.
    WrongLength,
}

/// A source of bytes in which something happens.
struct Bytes<'a> {
    left: &'a [u8],
    event: Event,
    /// Bytes until then.
    until: usize,
    handle: &'a UploadHandle,
}

impl Bytes<'_> {
    /// Copies the next bytes. Returns false where the source has failed.
    fn next(&mut self, to: &mut [u8]) -> bool {
        if to.len() > self.until {
            match self.event {
                Event::Cancelled => self.handle.cancel(),
                Event::Failed => return false,
                Event::Nothing | Event::WrongLength => {}
            }
        }
        self.until = self.until.saturating_sub(to.len());
        let (now, later) = self.left.split_at(to.len());
        to.copy_from_slice(now);
        self.left = later;
        true
    }
}

impl Read for Bytes<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        // In parts, as a file does.
        let count = to.len().min(1000);
        if self.next(&mut to[..count]) { Ok(count) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

impl<D: Stressed> TestImage<D> {
    /// Creates a random image.
    pub(crate) fn create(gpu: &Gpu<D>, input: &mut Input<'_>) -> Result<Self, String> {
        let device = gpu.device();
        let formats = device.image_formats();
        let format = input.pick(&formats);
        let desc = random_desc(input, device, &format);
        let mut options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("texels");
        if !input.once_in(3) {
            options = options.relocatable();
        }
        let made = if input.once_in(8) {
            gpu.making_room().create_image(&desc.into(), &options).map_err(|error| format!("{error:?}"))
        } else {
            gpu.create_image(&desc.into(), &options).map_err(|error| format!("{error:?}"))
        };
        let image = made?;
        let texels = Texels::new(device.image_shape(&desc.into()), format.values);
        let is_exclusive = desc.sharing_mode == SharingMode::Exclusive;
        Ok(Self { image, is_exclusive, texels, forgotten: None })
    }

    /// Writes a random part of it. Returns why it was refused.
    pub(crate) fn write(
        &mut self,
        gpu: &Gpu<D>,
        own: Option<&Uploader<D>>,
        input: &mut Input<'_>,
        uploads: &mut Vec<PendingUpload>,
        findings: &mut Vec<String>,
    ) -> Result<(), String> {
        let part = random_part(input, &self.texels);
        let boxes = self.texels.boxes(&part);
        let list = boxes.as_deref().unwrap_or_default();
        let bytes = match boxes {
            Some(_) => self.texels.new_bytes(list),
            None => vec![7; 64],
        };
        let source = input.pick(&[Source::Slice, Source::Slice, Source::Reader, Source::Closure]);
        // Where a write ends early that would have overwritten all of an exclusive mip level, on a queue of another family, the
        // rest of that level is lost, as documented: and reported by the simulated GPU.
        let may_end = !self.is_exclusive || gpu.desc().uploader.image_queue.is_none();
        let event = match (source, input.below(12)) {
            (Source::Slice, 11) => Event::WrongLength,
            (Source::Slice, 10) => Event::Cancelled,
            (Source::Reader | Source::Closure, 11) if may_end => Event::Failed,
            (_, 10) if may_end => Event::Cancelled,
            _ => Event::Nothing,
        };
        let until = input.index(bytes.len() + 1);
        let handle = if input.once_in(3) { UploadHandle::streamed() } else { UploadHandle::new() };
        let about = format!("{source:?}, {event:?} at {until}, {part:?} of {:?}", self.texels.shape());
        let write = ImageWrite::new(part);
        let mut from = Bytes { left: &bytes, event, until, handle: &handle };
        let written = match own {
            Some(own) => self.write_by(own, &write, from),
            None => {
                let to = gpu.uploads().with_handle(&handle);
                match source {
                    Source::Slice if event == Event::Cancelled => {
                        handle.cancel();
                        to.write_image_part(&self.image, &write, &bytes)
                    }
                    Source::Slice if event == Event::WrongLength => {
                        let length =
                            if input.once_in(2) { bytes.len() + 1 } else { bytes.len().saturating_sub(1) };
                        let wrong = [&bytes[..], &[0]].concat();
                        let is_right = length == bytes.len();
                        let written = to.write_image_part(&self.image, &write, &wrong[..length]);
                        if !is_right && written.is_ok() {
                            findings.push(format!("{length} bytes were accepted: {about}"));
                        }
                        written
                    }
                    Source::Slice if write == ImageWrite::default() => to.write_image(&self.image, &bytes),
                    Source::Slice => to.write_image_part(&self.image, &write, &bytes),
                    Source::Reader => to.write_image_from(&self.image, &write, &mut from),
                    Source::Closure => {
                        let written = to.write_image_with(&self.image, &write, |rows| {
                            let is_written = rows.rows_mut().all(|row| from.next(row));
                            if is_written { Ok(()) } else { Err("it ends".into()) }
                        });
                        written.map_err(|error| match error {
                            FillError::Upload(error) => error,
                            // As that of a reader.
                            FillError::Fill { name, .. } => {
                                UploadError::Read { kind: io::ErrorKind::InvalidData, name }
                            }
                            other => unreachable!("{other}"),
                        })
                    }
                }
            }
        };
        let event = if own.is_some() { Event::Nothing } else { event };
        let expected = match (&written, event) {
            (Ok(()), Event::Nothing) => Some(UploadStatus::Arrived),
            (Err(UploadError::Interrupted { by: Interruption::Cancelled, .. }), _) => {
                Some(UploadStatus::Cancelled)
            }
            (Err(_), _) => Some(UploadStatus::Lost),
            (Ok(()), _) => None,
        };
        if own.is_none() {
            uploads.push(PendingUpload { handle: handle.clone(), expected });
        }
        if own.is_some() && matches!(written, Err(UploadError::OtherUploader { .. })) {
            // What the `Gpu`'s uploader has on its way is left as it is.
            return Err("another uploader".to_owned());
        }
        let list = list.to_vec();
        let refuses = gpu.desc().uploader.when_full == WhenFull::Refuse;
        self.note_write(boxes.is_some(), &list, &bytes, (event, until), (&written, refuses), |what| {
            findings.push(format!("{what}: {about}"));
        });
        written.map_err(|error| format!("{error:?}"))
    }

    /// Tries to write and to read it while an uploader of the program's own may have copies to it on their way.
    pub(crate) fn use_beside(&self, gpu: &Gpu<D>, input: &mut Input<'_>, findings: &mut Vec<String>) {
        // No bytes, so it is refused either way, and nothing changes.
        match gpu.uploads().write_image(&self.image, &[]) {
            Err(UploadError::OtherUploader { .. } | UploadError::Size { .. }) => {}
            // Some have no texels that a copy can write.
            Err(UploadError::ImageCopy { .. } | UploadError::UnknownState { .. }) => {}
            other => findings.push(format!("a write of 0 bytes was answered {other:?}")),
        }
        let part = random_part(input, &self.texels);
        // What is wrong with the part is found elsewhere.
        let Ok(PendingRead { read, expected, about }) = self.read_part(gpu, &part, &mut Vec::new()) else {
            return;
        };
        match gpu.reads().wait(&read) {
            Ok(found) => {
                let difference = difference(&expected, &found);
                findings.extend(
                    difference.map(|difference| format!("{difference}: beside an uploader: {about}")),
                );
            }
            Err(ReadError::OtherUploader { .. } | ReadError::Memory(_)) => {}
            Err(error) => findings.push(format!("a read beside an uploader was answered {error:?}: {about}")),
        }
    }

    /// Writes by an uploader of the program's own.
    fn write_by(
        &self,
        own: &Uploader<D>,
        write: &ImageWrite<D::ImageState>,
        from: Bytes<'_>,
    ) -> Result<(), UploadError> {
        own.write_image(&self.image, write, from.left)
    }

    /// Compares the outcome of a write with what was expected, and notes the new texels.
    fn note_write(
        &mut self,
        is_there: bool,
        boxes: &[TexelBox],
        bytes: &[u8],
        (event, until): (Event, usize),
        (written, refuses): (&Result<(), UploadError>, bool),
        mut find: impl FnMut(String),
    ) {
        use ImageCopyError::{NeedsGraphicsQueue, States};
        let texels = &mut self.texels;
        let is_of = |known: &[Known]| boxes.iter().any(|it| known.contains(&texels.known_of(it)));
        let is_unknown = is_of(&[Known::Forgotten, Known::Perhaps]);
        match written {
            Ok(()) if !is_there => find("a part that is not there was written".to_owned()),
            Ok(()) => {
                if is_of(&[Known::Forgotten]) && !texels.are_whole(boxes) {
                    find("texels in a forgotten state were kept".to_owned());
                }
                texels.write(boxes, bytes, usize::MAX);
                texels.set_known(boxes, Known::State);
            }
            Err(UploadError::ImageCopy { error: NeedsGraphicsQueue { .. } | States { .. }, .. }) => {}
            Err(UploadError::ImageCopy { error, .. }) if is_there => {
                find(format!("a part that is there was refused: {error}"));
            }
            Err(UploadError::ImageCopy { .. }) => {}
            Err(UploadError::UnknownState { .. }) if is_unknown => {}
            Err(UploadError::Size { .. }) if event == Event::WrongLength || !is_there => {}
            Err(UploadError::Interrupted { by: Interruption::Cancelled, written, remaining, .. })
                if event == Event::Cancelled =>
            {
                if written + remaining != bytes.len() as u64 && is_there {
                    find(format!("{written} bytes and {remaining} are not {}", bytes.len()));
                }
                let count = *written as usize;
                // Before the first piece was staged, nothing has changed.
                if count > 0 {
                    texels.forget(boxes, 0, !self.is_exclusive && !is_unknown);
                    texels.write(boxes, bytes, count);
                    texels.set_known(boxes, Known::Perhaps);
                }
            }
            Err(UploadError::Read { kind, .. })
                if event == Event::Failed && *kind == io::ErrorKind::InvalidData =>
            {
                texels.forget(boxes, until, !self.is_exclusive && !is_unknown);
                texels.set_known(boxes, Known::Perhaps);
            }
            // Staged as a whole, or not at all.
            Err(UploadError::Full { .. }) if refuses => {}
            // Staging memory stayed full, or there was none.
            Err(
                UploadError::Full { .. }
                | UploadError::TimedOut { .. }
                | UploadError::Resource(_)
                | UploadError::Device { .. }
                | UploadError::Interrupted { .. },
            ) => {
                texels.forget(boxes, usize::MAX, false);
                texels.set_known(boxes, Known::Perhaps);
            }
            Err(error) => find(format!("a write was answered {error:?}")),
        }
    }

    /// Reads random parts of it. Returns why one was refused.
    pub(crate) fn read(
        &self,
        gpu: &Gpu<D>,
        input: &mut Input<'_>,
        reads: &mut Vec<PendingRead>,
        findings: &mut Vec<String>,
    ) -> Result<(), String> {
        let mut refused = Ok(());
        let first = reads.len();
        for _ in 0..=input.below(3) {
            let part = random_part(input, &self.texels);
            match self.read_part(gpu, &part, findings) {
                // Nobody wants some of them.
                Ok(_) if input.once_in(8) => {}
                Ok(read) => reads.push(read),
                Err(why) => refused = Err(why),
            }
        }
        // Now, since the image may be written before a frame ends.
        if let Err(error) = gpu.reads().submit() {
            reads.truncate(first);
            return Err(format!("{error:?}"));
        }
        for PendingRead { read, about, .. } in &reads[first..] {
            if read.status() == ReadStatus::Pending {
                findings.push(format!("a read is pending after it was submitted: {about}"));
            }
        }
        refused
    }

    fn read_part(
        &self,
        gpu: &Gpu<D>,
        part: &ImagePart,
        findings: &mut Vec<String>,
    ) -> Result<PendingRead, String> {
        use ImageCopyError::NeedsGraphicsQueue;
        let (texels, boxes) = (&self.texels, self.texels.boxes(part));
        let list = boxes.as_deref().unwrap_or_default();
        let size = texels.size(list);
        let is_of = |known: &[Known]| list.iter().any(|it| known.contains(&texels.known_of(it)));
        let about = format!("{part:?} of {:?}", texels.shape());
        let read = gpu.reads().read_image(&self.image, part);
        let is_wrong = match &read {
            Ok(read) => {
                boxes.is_none() || read.size() != size as u64 || is_of(&[Known::Nothing, Known::Forgotten])
            }
            Err(ReadError::ImageCopy { error: NeedsGraphicsQueue { .. }, .. }) => false,
            Err(ReadError::ImageCopy { .. }) => boxes.is_some(),
            Err(ReadError::ZeroSize { .. }) => size != 0,
            Err(ReadError::NoTexels { .. }) => !is_of(&[Known::Nothing, Known::Perhaps]),
            Err(ReadError::UnknownState { .. }) => {
                !is_of(&[Known::Nothing, Known::Forgotten, Known::Perhaps])
            }
            Err(_) => true,
        };
        if is_wrong {
            findings.push(format!("a read was answered {read:?}: {about}"));
        }
        let read = read.map_err(|error| format!("{error:?}"))?;
        Ok(PendingRead { read, expected: texels.expected(list), about })
    }

    /// Says that its state is not known, or what it was.
    pub(crate) fn forget_state(&mut self) {
        if let Some(state) = self.forgotten.take() {
            raw::set_state(&self.image, state);
            self.texels.set_all_known(Known::State);
        } else if self.texels.is_known()
            && let Some(state) = self.image.state()
        {
            self.image.forget_state();
            self.forgotten = Some(state);
            self.texels.set_all_known(Known::Forgotten);
        }
    }

    /// Compares all texels that are known.
    pub(crate) fn compare(&self, gpu: &Gpu<D>, findings: &mut Vec<String>) -> Result<u64, String> {
        let &ImageShape { mip_levels, array_layers, .. } = self.texels.shape();
        let mut bytes = 0;
        for (layer, level) in
            (0..array_layers).flat_map(|layer| (0..mip_levels).map(move |level| (layer, level)))
        {
            let part =
                ImagePart::default().with_mip_levels(level..level + 1).with_array_layers(layer..layer + 1);
            let Some(boxes) = self.texels.boxes(&part) else { continue };
            if boxes.iter().any(|it| self.texels.known_of(it) != Known::State) {
                continue;
            }
            let read = self.read_part(gpu, &part, findings)?;
            let found = gpu.reads().wait(&read.read).map_err(|error| format!("{error:?}"))?;
            bytes += found.len() as u64;
            if let Some(difference) = difference(&read.expected, &found) {
                findings.push(format!("{difference}: {}", read.about));
            }
        }
        Ok(bytes)
    }
}

impl PendingRead {
    /// Compares the bytes, if they are there. Returns how many; `None` if they are to come.
    pub(crate) fn compare(&self, findings: &mut Vec<String>) -> Option<u64> {
        match self.read.bytes() {
            Ok(found) => {
                if let Some(difference) = difference(&self.expected, &found) {
                    findings.push(format!("{difference}: {}", self.about));
                }
                Some(found.len() as u64)
            }
            Err(ReadError::NotYet) => None,
            // There was no memory to read into, or the `Gpu` was dropped.
            Err(ReadError::Memory(_) | ReadError::GivenUp) => Some(0),
            Err(error) => {
                findings.push(format!("a read failed: {error:?}: {}", self.about));
                Some(0)
            }
        }
    }

    /// Returns its handle.
    pub(crate) fn handle(&self) -> &ReadHandle {
        &self.read
    }
}

impl PendingUpload {
    /// Waits until the handle is final, after the points of all uploads were reached, and compares how it ended.
    pub(crate) fn compare<D: Stressed>(&self, gpu: &Gpu<D>, findings: &mut Vec<String>) {
        let began = Instant::now();
        while !self.handle.status().is_final() && began.elapsed() < Duration::from_secs(10) {
            // Another thread may be about to tell the handle.
            gpu.reclaim();
            std::thread::yield_now();
        }
        let found = self.handle.status();
        if self.expected.is_some_and(|expected| expected != found) || !found.is_final() {
            findings.push(format!("an upload ended as {found:?} rather than {:?}", self.expected));
        }
    }
}
