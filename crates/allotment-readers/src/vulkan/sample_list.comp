// Samples a texture at each entry of a list of coordinates, and writes the texel into the picture.
//
// The heap of resources has sampled images at binding 0 where descriptors are in buffers, and at binding 2 where they
// are in sets. sample_list_2d.spv, sample_list_cube.spv and the same with `_sets` were made of this by
// `glslangValidator -V --target-env vulkan1.1 -DTEXTURES=0 -DKIND=2D -DAT=at.xy -o sample_list_2d.spv sample_list.comp`, with
// `-DKIND=Cube -DAT=at` for cubes and `-DTEXTURES=2` for sets.
#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_nonuniform_qualifier : require

#define JOIN(a, b) a##b
#define TEXTURE(kind) JOIN(texture, kind)
#define SAMPLER(kind) JOIN(sampler, kind)

layout(local_size_x = 64) in;

layout(set = 0, binding = TEXTURES) uniform TEXTURE(KIND) textures[];
layout(set = 1, binding = 0) uniform sampler samplers[];

// u, v, w, the level, and the number of the texel in the picture.
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer List {
    uint word[];
};

layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer Picture {
    uint texel[];
};

layout(push_constant) uniform Wanted {
    List list;
    Picture picture;
    uint textureAt;
    uint samplerAt;
    uint count;
};

#define NAMED \
    nonuniformEXT(SAMPLER(KIND)(textures[nonuniformEXT(textureAt)], samplers[nonuniformEXT(samplerAt)]))

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= count) {
        return;
    }
    uint first = 5 * i;
    vec3 at = uintBitsToFloat(uvec3(list.word[first], list.word[first + 1], list.word[first + 2]));
    float level = uintBitsToFloat(list.word[first + 3]);
    vec4 found = textureLod(NAMED, AT, level);
    picture.texel[list.word[first + 4]] = packUnorm4x8(found);
}
