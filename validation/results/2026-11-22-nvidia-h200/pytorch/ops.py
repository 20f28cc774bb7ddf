# times of single ops: bf16 products, attention, norms, copies inside the device. CSV to argv[1]
import sys, csv, random, torch, torch.nn.functional as F, time
random.seed(7); torch.manual_seed(7)
dev='cuda'; out=csv.writer(open(sys.argv[1],'w',newline='')); out.writerow("kind,dtype,a,b,c,d,e,f,us,spread".split(','))
t0=time.time()
def measure(make, sets):
    # several input sets so that nothing stays in the cache when it is large; events around a CUDA graph of n calls
    fs=[make() for _ in range(sets)]
    for f in fs: f()
    torch.cuda.synchronize()
    n=20
    g=torch.cuda.CUDAGraph(); s=torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for f in fs: f()
    torch.cuda.current_stream().wait_stream(s); torch.cuda.synchronize()
    with torch.cuda.graph(g):
        for i in range(n): fs[i%sets]()
    g.replay(); torch.cuda.synchronize()
    ts=[]
    for _ in range(7):
        a=torch.cuda.Event(enable_timing=True); b=torch.cuda.Event(enable_timing=True)
        a.record(); g.replay(); b.record(); b.synchronize(); ts.append(a.elapsed_time(b)*1e3/n)
    ts.sort(); return ts[3], (ts[-1]-ts[0])/ts[3]
def sets(nbytes): return max(1,min(8,int(200e6//max(1,nbytes))+1))
def row(kind,dt,dims,make,nbytes):
    try:
        us,sp=measure(make,sets(nbytes)); d=list(dims)+[0]*(6-len(dims)); out.writerow([kind,dt,*d,f"{us:.3f}",f"{sp:.3f}"])
    except Exception as e: print("skip",kind,dims,str(e)[:80])
bf=torch.bfloat16
nk=[(4096,4096),(6144,4096),(28672,4096),(4096,14336),(8192,8192),(57344,8192),(8192,28672),(2304,768),(3072,768),(768,3072),(12288,12288),(128256,4096)]
for n,k in nk:
    for m in (1,2,8,32,64,128,256,512,1000,2048,4096,8192):
        if m*n>1.2e9 or time.time()-t0>60: continue
        def mk(m=m,n=n,k=k):
            x=torch.randn(m,k,device=dev,dtype=bf); w=torch.randn(n,k,device=dev,dtype=bf); return lambda: F.linear(x,w)
        row("gemm","bfloat16",(m,n,k),mk,2*(m*k+n*k+m*n))
print("gemm",time.time()-t0)
from torch.nn.attention import sdpa_kernel, SDPBackend
for heads,kv,d in ((32,8,128),(64,8,128),(12,12,64),(16,16,64)):
    for b,s in ((1,128),(1,512),(1,2048),(1,8192),(1,32768),(4,512),(4,2048),(8,1024),(16,512),(32,256)):
        if time.time()-t0>85: continue
        def mk(b=b,s=s):
            q=torch.randn(b,heads,s,d,device=dev,dtype=bf); k=torch.randn(b,kv,s,d,device=dev,dtype=bf); v=torch.randn(b,kv,s,d,device=dev,dtype=bf)
            def f():
                with sdpa_kernel(SDPBackend.FLASH_ATTENTION): return F.scaled_dot_product_attention(q,k,v,is_causal=True,enable_gqa=heads!=kv)
            return f
        row("attention_prefill","bfloat16",(b,s,heads,kv,d),mk,2*b*s*d*(2*heads+2*kv))
print("attention",time.time()-t0)
for rows in (1,16,128,1024,4096,16384):
    for h in (768,4096,8192):
        def mk(rows=rows,h=h):
            x=torch.randn(rows,h,device=dev,dtype=bf); w=torch.randn(h,device=dev,dtype=bf); return lambda: F.rms_norm(x,(h,),w)
        row("rms_norm","bfloat16",(rows,h),mk,4*rows*h)
        def mk2(rows=rows,h=h):
            x=torch.randn(rows,h,device=dev,dtype=bf); w=torch.randn(h,device=dev,dtype=bf); bb=torch.randn(h,device=dev,dtype=bf); return lambda: F.layer_norm(x,(h,),w,bb)
        row("layer_norm","bfloat16",(rows,h),mk2,4*rows*h)
        def mk3(rows=rows,h=h):
            x=torch.randn(rows,h,device=dev,dtype=bf); y=torch.randn(rows,h,device=dev,dtype=bf); return lambda: x+y
        row("add","bfloat16",(rows,h),mk3,6*rows*h)
        def mk4(rows=rows,h=h):
            x=torch.randn(rows,h,device=dev,dtype=bf); return lambda: F.silu(x)
        row("silu","bfloat16",(rows,h),mk4,4*rows*h)
        def mk5(rows=rows,h=h):
            x=torch.randn(rows,h,device=dev,dtype=torch.float32); return lambda: torch.softmax(x,-1)
        row("softmax","float32",(rows,h),mk5,8*rows*h)
for e in range(10,31):
    n=1<<e
    def mk(n=n):
        x=torch.randint(0,255,(n,),device=dev,dtype=torch.uint8); y=torch.empty_like(x); return lambda: y.copy_(x)
    row("copy","uint8",(n,),mk,2*n)
for vocab,h in ((50257,768),(128256,4096)):
    for t in (16,256,2048,8192):
        def mk(vocab=vocab,h=h,t=t):
            w=torch.randn(vocab,h,device=dev,dtype=bf); i=torch.randint(vocab,(t,),device=dev); return lambda: F.embedding(i,w)
        row("embedding","bfloat16",(t,vocab,h),mk,4*t*h)
print("done",time.time()-t0)
