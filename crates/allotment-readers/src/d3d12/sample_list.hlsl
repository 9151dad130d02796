// Samples a texture at each entry of a list of coordinates, and writes the texel into the picture as four bytes.
//
// sample_list_2d.dxbc and sample_list_cube.dxbc were made of this, for shader model 5.0 so that every runtime takes them, by
// `D3DCompile` of Wine 10's d3dcompiler_47: target cs_5_0, entry point main, D3DCOMPILE_OPTIMIZATION_LEVEL3, with the macros
// TEXTURE=Texture2D and AT=at.xy, or TEXTURE=TextureCube and AT=at.

TEXTURE<float4> textures : register(t0);
// u, v, w, the level, and the number of the texel in the picture.
ByteAddressBuffer list : register(t1);
SamplerState from : register(s0);
RWByteAddressBuffer to : register(u0);

cbuffer Constants : register(b0)
{
    uint count;
};

[numthreads(64, 1, 1)]
void main(uint3 thread : SV_DispatchThreadID)
{
    if (thread.x < count)
    {
        uint4 entry = list.Load4(20 * thread.x);
        uint texel = list.Load(20 * thread.x + 16);
        float3 at = asfloat(entry.xyz);
        uint4 bytes = uint4(textures.SampleLevel(from, AT, asfloat(entry.w)) * 255.0 + 0.5);
        to.Store(4 * texel, bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24);
    }
}
