"""Temporary."""
import ml_dtypes as _m, numpy as _np
from trn3 import _native as _n
bool_=_np.dtype(bool)
uint8=_np.dtype("u1");int8=_np.dtype("i1");uint16=_np.dtype("u2");int16=_np.dtype("i2");uint32=_np.dtype("u4");int32=_np.dtype("i4")
float32=_np.dtype("f4");float16=_np.dtype("f2");bfloat16=_np.dtype(_m.bfloat16)
for _k in "float8_e5m2 float8_e4m3 float8_e4m3fn float8_e3m4 float8_e8m0fnu float6_e2m3fn float6_e3m2fn float4_e2m1fn".split(): globals()[_k]=_np.dtype(getattr(_m,_k))
for _k in "float4_e2m1fn_x4 float8_e4m3fn_x4 float8_e5m2_x4 tfloat32".split(): globals()[_k]=_np.dtype(getattr(_n,_k))
def dtype(x): 
    if isinstance(x,str): return globals()[x]
    return _np.dtype(x)
def name(x): return str(dtype(x))
