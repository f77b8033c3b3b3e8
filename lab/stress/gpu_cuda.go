//go:build nvml && linux && (amd64 || arm64)

package stress

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// cuda is an NVIDIA device that is accessed through the driver API (docs.nvidia.com/cuda/cuda-driver-api). It loads the
// driver's library at run time and does not need the CUDA toolkit.
type cuda struct {
	fn     map[string]uintptr
	label  string
	blocks uintptr
	device uintptr

	// C writes to these fields: the struct is on the heap and does not move.
	context, module, kernel, stream, before, after, memory uintptr
	number                                                 int32
	elapsed                                                float32
	text                                                   [256]byte
	turns                                                  uint64
	params                                                 [2]unsafe.Pointer
	ptx                                                    []byte
	entry                                                  []byte
}

// cudaFunctions are the functions that we call; of alternative names, either is sufficient.
var cudaFunctions = []string{
	"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
	"cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxSetFlags_v2 cuDevicePrimaryCtxSetFlags", "cuCtxSetCurrent",
	"cuModuleLoadData", "cuModuleUnload", "cuModuleGetFunction",
	"cuStreamCreate", "cuStreamDestroy_v2", "cuEventCreate", "cuEventDestroy_v2", "cuEventRecord", "cuEventSynchronize",
	"cuEventElapsedTime",
	"cuMemAlloc_v2", "cuMemFree_v2", "cuLaunchKernel", "cuGetErrorName",
}

// Constants of cuda.h.
const (
	cudaSMs          = 16 // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
	cudaBlockingSync = 4  // CU_CTX_SCHED_BLOCKING_SYNC: a waiting thread sleeps
	cudaNonBlocking  = 1  // CU_STREAM_NON_BLOCKING
	cudaEventSleeps  = 1  // CU_EVENT_BLOCKING_SYNC
	cudaThreads      = 256
)

func openCUDA(device int) (gpuDevice, error) { return openCUDAFrom("libcuda.so.1", device) }

func openCUDAFrom(path string, device int) (gpuDevice, error) {
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf(
			"no NVIDIA driver library: install the driver, or give the container NVIDIA_DRIVER_CAPABILITIES=compute (%w)", err)
	}
	c := &cuda{fn: map[string]uintptr{}, ptx: append([]byte(spinPTX), 0), entry: []byte("reckon_spin\x00")}
	for _, list := range cudaFunctions {
		first := strings.Fields(list)[0]
		for name := range strings.FieldsSeq(list) {
			if c.fn[first] == 0 {
				c.fn[first], _ = purego.Dlsym(lib, name) // a missing function is reported when it is called
			}
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.findDevice(device); err != nil {
		return nil, err
	}
	if err := c.prepareKernel(); err != nil {
		_ = c.close() // the first error is sufficient
		return nil, fmt.Errorf("%s: %w", c.label, err)
	}
	return c, nil
}

// call calls a function of the driver; its result is a CUresult.
func (c *cuda) call(name string, args ...uintptr) error {
	fn := c.fn[name]
	if fn == 0 {
		return fmt.Errorf("the driver has no %s; it is too old", name)
	}
	r, _, _ := purego.SyscallN(fn, args...)
	if code := uint32(r); code != 0 {
		return fmt.Errorf("%s: %s", name, c.errorName(code))
	}
	return nil
}

// errorName returns the driver's name for an error, such as CUDA_ERROR_NO_DEVICE.
func (c *cuda) errorName(code uint32) string {
	if fn := c.fn["cuGetErrorName"]; fn != 0 {
		var name *byte
		if r, _, _ := purego.SyscallN(fn, uintptr(code), uintptr(unsafe.Pointer(&name))); uint32(r) == 0 && name != nil {
			return cString(name)
		}
	}
	return fmt.Sprintf("error %d", code)
}

func cString(p *byte) string {
	var b []byte
	for n := 0; n < 100; n++ {
		ch := *(*byte)(unsafe.Add(unsafe.Pointer(p), n))
		if ch == 0 {
			break
		}
		b = append(b, ch)
	}
	return string(b)
}

// findDevice finds the device by its number.
func (c *cuda) findDevice(device int) error {
	if err := c.call("cuInit", 0); err != nil {
		return fmt.Errorf("%w: %w", errNoGPU, err)
	}
	if err := c.call("cuDeviceGetCount", uintptr(unsafe.Pointer(&c.number))); err != nil {
		return err
	}
	if n := int(c.number); device < 0 || device >= n {
		return fmt.Errorf("%w with number %d; this machine has %d", errNoGPU, device, n)
	}
	if err := c.call("cuDeviceGet", uintptr(unsafe.Pointer(&c.number)), uintptr(device)); err != nil {
		return err
	}
	c.device = uintptr(c.number)
	c.label = fmt.Sprintf("GPU %d", device)
	if c.call("cuDeviceGetName", uintptr(unsafe.Pointer(&c.text)), uintptr(len(c.text)-1), c.device) == nil {
		name, _, _ := strings.Cut(string(c.text[:]), "\x00")
		c.label += " (" + strings.ToValidUTF8(name, "?") + ")"
	}
	if err := c.call("cuDeviceGetAttribute", uintptr(unsafe.Pointer(&c.number)), cudaSMs, c.device); err != nil {
		return err
	}
	c.blocks = uintptr(max(c.number, 1))
	return nil
}

// prepareKernel creates everything that a kernel needs.
func (c *cuda) prepareKernel() error {
	// Another part of the process may have set the flags already; they are kept.
	_ = c.call("cuDevicePrimaryCtxSetFlags_v2", c.device, cudaBlockingSync)
	type step struct {
		name string
		args []uintptr
	}
	at := func(p *uintptr) uintptr { return uintptr(unsafe.Pointer(p)) }
	if err := c.call("cuDevicePrimaryCtxRetain", at(&c.context), c.device); err != nil {
		return err
	}
	if err := c.call("cuCtxSetCurrent", c.context); err != nil {
		return err
	}
	if err := c.call("cuModuleLoadData", at(&c.module), uintptr(unsafe.Pointer(&c.ptx[0]))); err != nil {
		return err
	}
	for _, s := range []step{
		{"cuModuleGetFunction", []uintptr{at(&c.kernel), c.module, uintptr(unsafe.Pointer(&c.entry[0]))}},
		{"cuStreamCreate", []uintptr{at(&c.stream), cudaNonBlocking}},
		{"cuEventCreate", []uintptr{at(&c.before), cudaEventSleeps}},
		{"cuEventCreate", []uintptr{at(&c.after), cudaEventSleeps}},
		{"cuMemAlloc_v2", []uintptr{at(&c.memory), 4}},
	} {
		if err := c.call(s.name, s.args...); err != nil {
			return err
		}
	}
	c.params = [2]unsafe.Pointer{unsafe.Pointer(&c.turns), unsafe.Pointer(&c.memory)}
	return nil
}

func (c *cuda) name() string { return c.label }

// enter makes the device's context current in the calling thread.
func (c *cuda) enter() error { return c.call("cuCtxSetCurrent", c.context) }

// spin implements gpuDevice.
func (c *cuda) spin(turns uint64) (time.Duration, error) {
	c.turns = turns
	if err := c.call("cuEventRecord", c.before, c.stream); err != nil {
		return 0, err
	}
	if err := c.call("cuLaunchKernel", c.kernel, c.blocks, 1, 1, cudaThreads, 1, 1, 0, c.stream, uintptr(unsafe.Pointer(&c.params)),
		0); err != nil {
		return 0, err
	}
	if err := c.call("cuEventRecord", c.after, c.stream); err != nil {
		return 0, err
	}
	if err := c.call("cuEventSynchronize", c.after); err != nil {
		return 0, err
	}
	if err := c.call("cuEventElapsedTime", uintptr(unsafe.Pointer(&c.elapsed)), c.before, c.after); err != nil {
		return 0, err
	}
	return time.Duration(float64(c.elapsed) * float64(time.Millisecond)), nil
}

// close frees all resources.
func (c *cuda) close() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if c.context == 0 {
		return nil
	}
	err := c.call("cuCtxSetCurrent", c.context)
	for _, x := range []struct {
		name string
		of   *uintptr
	}{
		{"cuMemFree_v2", &c.memory}, {"cuEventDestroy_v2", &c.after}, {"cuEventDestroy_v2", &c.before}, {"cuStreamDestroy_v2", &c.stream},
		{"cuModuleUnload", &c.module},
	} {
		if *x.of == 0 {
			continue
		}
		if e := c.call(x.name, *x.of); err == nil {
			err = e
		}
		*x.of = 0
	}
	if e := c.call("cuDevicePrimaryCtxRelease_v2", c.device); err == nil {
		err = e
	}
	c.context = 0
	return err
}

// spinPTX is the kernel in PTX assembly. Each thread multiplies for a number of turns and then writes one word, because
// the compiler would remove work without a result. The driver compiles the text. It is PTX ISA 6.0, which every driver
// since CUDA 9 supports.
const spinPTX = `.version 6.0
.target sm_30
.address_size 64
.visible .entry reckon_spin(.param .u64 p_turns, .param .u64 p_out)
{
	.reg .pred %p<3>;
	.reg .b64 %t<4>;
	.reg .f32 %f<6>;
	ld.param.u64 %t1, [p_turns];
	ld.param.u64 %t2, [p_out];
	cvta.to.global.u64 %t2, %t2;
	mov.u64 %t3, 0;
	mov.f32 %f1, 0f3F800000;
	mov.f32 %f2, 0f3F7FFFFE;
	mov.f32 %f3, 0f33800000;
	mov.f32 %f4, 0f3F000000;
loop:
	setp.ge.u64 %p1, %t3, %t1;
	@%p1 bra done;
	fma.rn.f32 %f1, %f1, %f2, %f3;
	fma.rn.f32 %f4, %f4, %f2, %f3;
	fma.rn.f32 %f1, %f1, %f2, %f3;
	fma.rn.f32 %f4, %f4, %f2, %f3;
	add.u64 %t3, %t3, 1;
	bra loop;
done:
	add.f32 %f5, %f1, %f4;
	setp.gt.f32 %p2, %f5, 0f7F000000;
	@%p2 st.global.f32 [%t2], %f5;
	ret;
}
`

var errNoGPU = errors.New("there is no GPU")
