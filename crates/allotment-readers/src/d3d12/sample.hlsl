// What `D3d12Reader` samples with: each thread samples one texel of the picture and writes it as four bytes.
//
// sample.dxbc was made of this, for shader model 5.0 so that every runtime takes it, by `D3DCompile` of Wine 10's
// d3dcompiler_47: target cs_5_0, entry point main, D3DCOMPILE_OPTIMIZATION_LEVEL3.

Texture2D<float4> albedo : register(t0);
SamplerState from : register(s0);
RWByteAddressBuffer to : register(u0);

cbuffer Constants : register(b0)
{
    // Of the picture.
    uint width;
    uint height;
};

[numthreads(8, 8, 1)]
void main(uint3 thread : SV_DispatchThreadID)
{
    if (thread.x < width && thread.y < height)
    {
        float2 size;
        albedo.GetDimensions(size.x, size.y);
        // The middle of a texel; beyond the texture, the sampler says which.
        float2 at = (float2(thread.xy) + 0.5) / size;
        uint4 bytes = uint4(albedo.SampleLevel(from, at, 0.0) * 255.0 + 0.5);
        to.Store(4 * (thread.y * width + thread.x), bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24);
    }
}
