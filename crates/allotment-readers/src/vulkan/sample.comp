// Samples a texture, and writes each texel that it finds into a list.
//
// The heap of resources has sampled images at binding 0 where descriptors are in buffers, and at binding 2 where they
// are in sets. sample.spv and sample_sets.spv were made of this by
// `glslangValidator -V --target-env vulkan1.1 -DTEXTURES=0 -o sample.spv sample.comp` and the same with
// `-DTEXTURES=2 -o sample_sets.spv`.
#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_nonuniform_qualifier : require

layout(local_size_x = 8, local_size_y = 8) in;

layout(set = 0, binding = TEXTURES) uniform texture2D textures[];
layout(set = 1, binding = 0) uniform sampler samplers[];

layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer Picture {
    uint texel[];
};

layout(push_constant) uniform Wanted {
    Picture picture;
    uint textureAt;
    uint samplerAt;
    uvec2 extent;
};

#define NAMED \
    nonuniformEXT(sampler2D(textures[nonuniformEXT(textureAt)], samplers[nonuniformEXT(samplerAt)]))

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    if (any(greaterThanEqual(at, extent))) {
        return;
    }
    vec2 size = vec2(textureSize(NAMED, 0));
    // The middle of a texel; beyond the texture, the sampler says which.
    vec4 found = textureLod(NAMED, (vec2(at) + 0.5) / size, 0.0);
    picture.texel[at.y * extent.x + at.x] = packUnorm4x8(found);
}
