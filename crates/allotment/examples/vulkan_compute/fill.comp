// Fills a buffer with numbers that depend on a seed and on the place.
//
// fill.spv was made of this by `glslangValidator -V --target-env vulkan1.1 -o fill.spv fill.comp`.
#version 450

layout(local_size_x = 64) in;

layout(std430, set = 0, binding = 0) writeonly buffer Numbers {
    uint numbers[];
};

layout(push_constant) uniform Wanted {
    uint seed;
    uint count;
};

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) {
        uint x = i ^ seed;
        x *= 0x9e3779b1u;
        x ^= x >> 15;
        numbers[i] = x;
    }
}
