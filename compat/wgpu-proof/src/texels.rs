//! The texels of a texture, of four bytes each.

use crate::Gpu;

/// Where copies find a level of a layer.
pub fn place(texture: &wgpu::Texture, mip: u32, layer: u32) -> wgpu::TexelCopyTextureInfo<'_> {
    let origin = wgpu::Origin3d { x: 0, y: 0, z: layer };
    wgpu::TexelCopyTextureInfo { texture, mip_level: mip, origin, aspect: wgpu::TextureAspect::All }
}

/// The size of a level.
pub fn extent(texture: &wgpu::Texture, mip: u32) -> wgpu::Extent3d {
    let side = |texels: u32| (texels >> mip).max(1);
    wgpu::Extent3d { width: side(texture.width()), height: side(texture.height()), depth_or_array_layers: 1 }
}

impl Gpu {
    /// Returns the texels of a level of a layer, row by row.
    pub fn texels(&self, texture: &wgpu::Texture, mip: u32, layer: u32) -> Vec<u8> {
        let extent = extent(texture, mip);
        let row = 4 * extent.width;
        let pitch = row.next_multiple_of(wgpu::COPY_BYTES_PER_ROW_ALIGNMENT);
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let back = self.buffer(u64::from(pitch) * u64::from(extent.height), usage);
        let layout =
            wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(pitch), rows_per_image: None };
        self.submit(|encoder| {
            let to = wgpu::TexelCopyBufferInfo { buffer: &back, layout };
            encoder.copy_texture_to_buffer(place(texture, mip, layer), to, extent);
        });
        self.mapped(&back).chunks(pitch as usize).flat_map(|bytes| bytes[..row as usize].to_vec()).collect()
    }
}
