// Mixes each number of a buffer with the one at the same distance from the end.
//
// mirror.spv was made of this by `glslangValidator -V --target-env vulkan1.1 -o mirror.spv mirror.comp`.
#version 450

layout(local_size_x = 64) in;

layout(std430, set = 0, binding = 0) readonly buffer Numbers {
    uint numbers[];
};

layout(std430, set = 0, binding = 1) writeonly buffer Results {
    uint results[];
};

layout(push_constant) uniform Wanted {
    uint seed;
    uint count;
};

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) {
        uint x = (numbers[i] ^ seed) * 0x9e3779b1u + numbers[count - 1 - i];
        results[i] = x ^ (x >> 15);
    }
}
