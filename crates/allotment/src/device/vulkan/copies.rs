//! The commands that a submission's copies are recorded as.
//!
//! ```text
//!   barrier    what the queue's family takes over
//!   barrier    earlier writes become visible; whole images and images of the first wave: before → transfer
//!   copies     between buffers; whole images; images of the first wave
//!   barriers   images: transfer → after; images of the next wave: before → transfer; and so on, wave by wave
//!   barrier    images of the last wave and whole images: transfer → after; the CPU sees what was written
//!   barrier    what the queue's family hands over
//! ```
//!
//! Copies wait for all commands before them, and all commands after them wait for the copies, since it is not
//! known how those commands use the buffers and images. On a transfer queue this waits for other copies only.

use ash::vk;

use super::formats::{aspect_flag, barrier_aspects};
use super::ownership::Barriers;
use super::{Device, full_images};
use crate::device::waves::{Wave, waves};
use crate::device::{
    BufferCopy, CopyDirection, CopyError, FullImageCopy, ImageCopy, QueueKind, Submission, TexelBlock,
};

/// Lists that are reused by every recording, so that a steady frame allocates nothing.
#[derive(Default)]
pub(super) struct Scratch {
    buffer_regions: Vec<vk::BufferCopy>,
    image_regions: Vec<vk::BufferImageCopy>,
    pub(super) whole_regions: Vec<vk::ImageCopy>,
    barriers: Vec<vk::ImageMemoryBarrier<'static>>,
    pub(super) ownership: Barriers,
}

/// A command buffer that copies are recorded into.
pub(super) struct Recording<'a> {
    pub(super) device: &'a ash::Device,
    pub(super) commands: vk::CommandBuffer,
    /// The kind of the queue that the commands are for.
    pub(super) kind: QueueKind,
    pub(super) scratch: &'a mut Scratch,
}

/// The layouts to which no image can be transitioned, and in which no image has defined contents.
pub(super) const UNUSABLE_LAYOUTS: [vk::ImageLayout; 2] =
    [vk::ImageLayout::UNDEFINED, vk::ImageLayout::PREINITIALIZED];

/// Returns an error for copies that Vulkan cannot express: aspects that the image does not have, row pitches that are not
/// whole blocks, and images that would be left in an unusable layout; and, on queues without graphics, for depth and
/// stencil.
// With `VK_KHR_maintenance10` some queues without graphics copy depth and stencil, which is not used here.
pub(super) fn check(copies: &[ImageCopy<'_, Device>], kind: QueueKind) -> Result<(), CopyError> {
    for copy in copies {
        let &ImageCopy { row_pitch, rows, aspect, texels, .. } = copy;
        if texels.block(aspect).is_none() {
            return Err(CopyError::NoSuchAspect { aspect });
        }
        let Some(texel) = copy.block() else { return Err(CopyError::WrongTexel) };
        if aspect.needs_graphics() && kind != QueueKind::Graphics {
            return Err(CopyError::NeedsGraphicsQueue);
        }
        if region(copy, texel).is_none() {
            return Err(CopyError::Rows { row_pitch, rows });
        }
        if UNUSABLE_LAYOUTS.contains(&copy.after) {
            return Err(CopyError::States);
        }
    }
    Ok(())
}

/// Converts a copy to Vulkan's structure, which counts rows in texels.
fn region(copy: &ImageCopy<'_, Device>, texel: TexelBlock) -> Option<vk::BufferImageCopy> {
    let (pitch, bytes) = (copy.row_pitch, u64::from(texel.bytes));
    if pitch % bytes != 0 {
        return None;
    }
    // Offsets are signed in Vulkan, and 2^31 texels are above every limit.
    let signed = |length: u32| i32::try_from(length).ok();
    let ([x, y, z], [width, height, depth]) = (copy.origin, copy.extent);
    Some(vk::BufferImageCopy {
        buffer_offset: copy.buffer_offset,
        buffer_row_length: u32::try_from(pitch / bytes).ok()?.checked_mul(texel.width)?,
        buffer_image_height: copy.rows.checked_mul(texel.height)?,
        image_subresource: vk::ImageSubresourceLayers {
            aspect_mask: aspect_flag(copy.aspect),
            mip_level: copy.mip_level,
            base_array_layer: copy.array_layer,
            layer_count: 1,
        },
        image_offset: vk::Offset3D { x: signed(x)?, y: signed(y)?, z: signed(z)? },
        image_extent: vk::Extent3D { width, height, depth },
    })
}

/// Returns the layout in which an image is copied, and the copy's access.
fn copied_in(direction: CopyDirection) -> (vk::ImageLayout, vk::AccessFlags) {
    match direction {
        CopyDirection::IntoImage => (vk::ImageLayout::TRANSFER_DST_OPTIMAL, vk::AccessFlags::TRANSFER_WRITE),
        CopyDirection::OutOfImage => (vk::ImageLayout::TRANSFER_SRC_OPTIMAL, vk::AccessFlags::TRANSFER_READ),
    }
}

/// Returns the accesses that a kind of queue may make to images in a layout, as far as the layout determines
/// them. A barrier must not name an access that its queue does not support.
pub(super) fn accesses(layout: vk::ImageLayout, kind: QueueKind) -> vk::AccessFlags {
    // A queue without graphics does not support the stages of these accesses, and a barrier may only name
    // supported ones.
    let attachment = vk::AccessFlags::INPUT_ATTACHMENT_READ
        | vk::AccessFlags::COLOR_ATTACHMENT_READ
        | vk::AccessFlags::COLOR_ATTACHMENT_WRITE
        | vk::AccessFlags::DEPTH_STENCIL_ATTACHMENT_READ
        | vk::AccessFlags::DEPTH_STENCIL_ATTACHMENT_WRITE;
    let all = match layout {
        vk::ImageLayout::TRANSFER_SRC_OPTIMAL => vk::AccessFlags::TRANSFER_READ,
        vk::ImageLayout::TRANSFER_DST_OPTIMAL => vk::AccessFlags::TRANSFER_WRITE,
        vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL => {
            vk::AccessFlags::SHADER_READ | vk::AccessFlags::INPUT_ATTACHMENT_READ
        }
        vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL => {
            vk::AccessFlags::COLOR_ATTACHMENT_READ | vk::AccessFlags::COLOR_ATTACHMENT_WRITE
        }
        vk::ImageLayout::DEPTH_STENCIL_ATTACHMENT_OPTIMAL => {
            vk::AccessFlags::DEPTH_STENCIL_ATTACHMENT_READ | vk::AccessFlags::DEPTH_STENCIL_ATTACHMENT_WRITE
        }
        // Input attachments too; but the validation layer accepts no more than these, and the memory barrier
        // beside the last image barriers covers all accesses.
        vk::ImageLayout::DEPTH_STENCIL_READ_ONLY_OPTIMAL => {
            vk::AccessFlags::DEPTH_STENCIL_ATTACHMENT_READ | vk::AccessFlags::SHADER_READ
        }
        // The submission makes host writes visible, and presentation waits for a semaphore.
        vk::ImageLayout::PREINITIALIZED | vk::ImageLayout::PRESENT_SRC_KHR => vk::AccessFlags::empty(),
        // Layouts such as `GENERAL` say nothing about the use. Generic accesses are allowed with every stage of
        // every queue.
        _ => vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE,
    };
    match kind {
        QueueKind::Graphics => all,
        QueueKind::Compute => all & !attachment,
        QueueKind::Transfer => all & !(attachment | vk::AccessFlags::SHADER_READ),
    }
}

/// The accesses that write. Reads have nothing to make available.
pub(super) const WRITES: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::TRANSFER_WRITE.as_raw()
        | vk::AccessFlags::COLOR_ATTACHMENT_WRITE.as_raw()
        | vk::AccessFlags::DEPTH_STENCIL_ATTACHMENT_WRITE.as_raw()
        | vk::AccessFlags::MEMORY_WRITE.as_raw(),
);

impl Recording<'_> {
    /// Records all copies, whose images were [checked](check), and whole images, which were
    /// [checked](full_images::check) too.
    pub(super) fn record(&mut self, submission: &Submission<'_, Device>) {
        let whole = submission.full_images;
        let mut waves = waves(submission.image_copies);
        let mut wave = waves.next();
        // Makes the writes of earlier commands visible, on this queue and on those that were waited for, and
        // keeps the copies from overwriting bytes that those commands still read.
        let before = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
            .dst_access_mask(vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE);
        // Memory, wave and whole images share one barrier call: each call would make the GPU wait once more.
        self.enter(wave.as_ref(), whole, &[before]);
        self.copy_buffers(submission.copies);
        self.copy_whole_images(whole);
        // Vulkan orders copies of a command buffer only by barriers, so each wave ends with one.
        while let Some(current) = wave {
            self.copy_images(current.copies);
            wave = waves.next();
            if wave.is_none() {
                return self.leave(Some(&current), whole);
            }
            // Two barriers between waves: a subresource may be in both, with different layouts.
            self.change(&current);
            self.enter(wave.as_ref(), &[], &[]);
        }
        self.leave(None, whole);
    }

    fn copy_buffers(&mut self, copies: &[BufferCopy<'_, Device>]) {
        let regions = &mut self.scratch.buffer_regions;
        // Copies between the same two buffers are batched into one command.
        for group in copies.chunk_by(|one, next| one.from == next.from && one.to == next.to) {
            regions.clear();
            regions.extend(group.iter().filter(|copy| copy.size > 0).map(|copy| vk::BufferCopy {
                src_offset: copy.from_offset,
                dst_offset: copy.to_offset,
                size: copy.size,
            }));
            if let Some(first) = group.first().filter(|_| !regions.is_empty()) {
                // SAFETY: the buffers are live and the ranges lie in them, by the caller's promise.
                unsafe { self.device.cmd_copy_buffer(self.commands, *first.from, *first.to, regions) };
            }
        }
    }

    fn copy_images(&mut self, copies: &[ImageCopy<'_, Device>]) {
        let regions = &mut self.scratch.image_regions;
        let same = |one: &ImageCopy<'_, Device>, next: &ImageCopy<'_, Device>| {
            (one.buffer, one.image, one.direction) == (next.buffer, next.image, next.direction)
        };
        for group in copies.chunk_by(same) {
            // A `VkBufferImageCopy` must not have an extent of 0; such a copy only transitions the image.
            let some = group.iter().filter(|copy| !copy.extent.contains(&0));
            regions.clear();
            regions.extend(some.filter_map(|copy| region(copy, copy.block()?)));
            let Some(first) = group.first().filter(|_| !regions.is_empty()) else { continue };
            let (layout, _) = copied_in(first.direction);
            let (device, commands, buffer, image) = (self.device, self.commands, *first.buffer, *first.image);
            match first.direction {
                // SAFETY: both are live and the regions lie in them, by the caller's promise; a barrier has
                // transitioned the subresources to this layout.
                CopyDirection::IntoImage => unsafe {
                    device.cmd_copy_buffer_to_image(commands, buffer, image, layout, regions);
                },
                // SAFETY: as above.
                CopyDirection::OutOfImage => unsafe {
                    device.cmd_copy_image_to_buffer(commands, image, layout, buffer, regions);
                },
            }
        }
    }

    /// Waits for earlier commands, and transitions the subresources of a wave and whole images to the transfer
    /// layouts.
    fn enter(
        &mut self,
        wave: Option<&Wave<'_, Device>>,
        whole: &[FullImageCopy<'_, Device>],
        memory: &[vk::MemoryBarrier<'_>],
    ) {
        self.scratch.barriers.clear();
        self.scratch.barriers.extend(wave.into_iter().flat_map(Wave::changes).map(|change| {
            let (layout, access) = copied_in(change.first.direction);
            barrier(change.first)
                .old_layout(change.first.before)
                .new_layout(layout)
                // Reads make no data available: only the execution dependency, which the stages give, keeps the
                // copy behind them.
                .src_access_mask(accesses(change.first.before, self.kind) & WRITES)
                .dst_access_mask(access)
        }));
        self.scratch.barriers.extend(whole.iter().flat_map(|copy| full_images::enter(copy, self.kind)));
        // The stages of earlier commands are not known, so the barrier waits for all of them.
        self.barrier(vk::PipelineStageFlags::ALL_COMMANDS, vk::PipelineStageFlags::TRANSFER, memory);
    }

    /// Transitions the subresources of a wave to their layouts after the copies.
    fn change(&mut self, wave: &Wave<'_, Device>) {
        self.collect_changes(wave);
        // The next user is not known either; it may run in any stage.
        self.barrier(vk::PipelineStageFlags::TRANSFER, vk::PipelineStageFlags::ALL_COMMANDS, &[]);
    }

    /// Transitions the last wave, if there is one, and whole images. Makes what was copied visible to everything
    /// that is submitted to the queue later, and to the CPU after its wait. Other queues see it by waiting for
    /// the timeline.
    fn leave(&mut self, wave: Option<&Wave<'_, Device>>, whole: &[FullImageCopy<'_, Device>]) {
        // `HOST_READ` is only valid with the stage `HOST`. A timeline wait alone does not make device writes
        // visible to the CPU.
        let to = vk::PipelineStageFlags::HOST | vk::PipelineStageFlags::ALL_COMMANDS;
        self.scratch.barriers.clear();
        if let Some(wave) = wave {
            self.collect_changes(wave);
        }
        self.scratch.barriers.extend(whole.iter().flat_map(|copy| full_images::leave(copy, self.kind)));
        let after =
            vk::MemoryBarrier::default().src_access_mask(vk::AccessFlags::TRANSFER_WRITE).dst_access_mask(
                // `MEMORY_WRITE` too: a later write must not overtake the copied bytes.
                vk::AccessFlags::HOST_READ | vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE,
            );
        self.barrier(vk::PipelineStageFlags::TRANSFER, to, &[after]);
    }

    fn collect_changes(&mut self, wave: &Wave<'_, Device>) {
        self.scratch.barriers.clear();
        self.scratch.barriers.extend(wave.changes().map(|change| {
            let (layout, access) = copied_in(change.first.direction);
            barrier(change.first)
                .old_layout(layout)
                .new_layout(change.after)
                .src_access_mask(access & WRITES)
                .dst_access_mask(accesses(change.after, self.kind))
        }));
    }

    fn barrier(
        &self,
        from: vk::PipelineStageFlags,
        to: vk::PipelineStageFlags,
        memory: &[vk::MemoryBarrier<'_>],
    ) {
        // Not `BY_REGION`, which is about framebuffers inside a render pass.
        let (none, images) = (vk::DependencyFlags::empty(), &self.scratch.barriers);
        // SAFETY: the command buffer is being recorded, and the images are live and in the layouts that the
        // barriers name, by the caller's promise.
        unsafe { self.device.cmd_pipeline_barrier(self.commands, from, to, none, memory, &[], images) };
    }
}

/// Returns a barrier for the subresource of a copy without an ownership transfer.
fn barrier(copy: &ImageCopy<'_, Device>) -> vk::ImageMemoryBarrier<'static> {
    vk::ImageMemoryBarrier::default()
        .image(*copy.image)
        // Ignored families mean no ownership transfer: images that several families use are the caller's to
        // transfer.
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .subresource_range(vk::ImageSubresourceRange {
            aspect_mask: barrier_aspects(&copy.texels),
            base_mip_level: copy.mip_level,
            level_count: 1,
            base_array_layer: copy.array_layer,
            layer_count: 1,
        })
}
