// Two textured triangles, turned by a uniform.
//
// renderer.spv was made of this by `naga --keep-coordinate-space renderer.wgsl renderer.spv` (naga-cli 30).

struct View {
    // Cosine and sine of the angle, width over height, and 0.
    turn: vec4<f32>,
}

@group(0) @binding(0) var<uniform> view: View;
@group(0) @binding(1) var checks: texture_2d<f32>;
@group(0) @binding(2) var nearest: sampler;

struct Corner {
    @builtin(position) position: vec4<f32>,
    @location(0) uv: vec2<f32>,
}

@vertex
fn vertex(@location(0) position: vec3<f32>, @location(1) uv: vec2<f32>) -> Corner {
    let x = position.x * view.turn.x - position.y * view.turn.y;
    let y = position.x * view.turn.y + position.y * view.turn.x;
    return Corner(vec4<f32>(x / view.turn.z, y, position.z, 1.0), uv);
}

@fragment
fn fragment(corner: Corner) -> @location(0) vec4<f32> {
    return textureSample(checks, nearest, corner.uv);
}
