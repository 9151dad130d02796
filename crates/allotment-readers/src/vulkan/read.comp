// Reads the first number of each buffer that a list of descriptors names, and writes it into a list.
//
// read.spv was made of this by `glslangValidator -V --target-env vulkan1.1 -o read.spv read.comp`. It is the same for
// both models: with either, storage buffers are binding 0 of the heap's layout.
#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_nonuniform_qualifier : require

layout(local_size_x = 64) in;

layout(std430, set = 0, binding = 0) readonly buffer Named {
    uint value;
} heap[];

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Indices {
    uint index[];
};

layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer Values {
    uint value[];
};

layout(push_constant) uniform Wanted {
    Indices indices;
    Values values;
    uint count;
};

void main() {
    uint all = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint i = gl_GlobalInvocationID.x; i < count; i += all) {
        values.value[i] = heap[nonuniformEXT(indices.index[i])].value;
    }
}
