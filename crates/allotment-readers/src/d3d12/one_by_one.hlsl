// What `D3d12Reader` runs where a shader cannot see a whole heap: it takes the first 4 bytes of what one descriptor
// names. There is one dispatch for each descriptor.
//
// one_by_one.dxbc was made of this, for shader model 5.1 so that every runtime takes it, by
// `fxc /T cs_5_1 /E main /O3 /Fo one_by_one.dxbc one_by_one.hlsl`.

ByteAddressBuffer from : register(t0);
RWByteAddressBuffer to : register(u0);

cbuffer Constants : register(b0)
{
    // Which of the results it is.
    uint place;
};

[numthreads(1, 1, 1)]
void main()
{
    to.Store(4 * place, from.Load(0));
}
