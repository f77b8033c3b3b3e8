package kubelet

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// message makes one of fields: a number, then a string, or the bytes of a message.
func message(list ...any) (out []byte) {
	for i := 0; i < len(list); i += 2 {
		n := protowire.Number(list[i].(int))
		switch v := list[i+1].(type) {
		case string:
			out = protowire.AppendString(protowire.AppendTag(out, n, protowire.BytesType), v)
		case []byte:
			out = protowire.AppendBytes(protowire.AppendTag(out, n, protowire.BytesType), v)
		case int:
			out = protowire.AppendVarint(protowire.AppendTag(out, n, protowire.VarintType), uint64(v))
		}
	}
	return out
}

// given is a ListPodResourcesResponse: of cart two GPUs, one of them shared, cores of its own (which are no devices), and a
// device of a claim; of db nothing.
func given() []byte {
	return message(
		1, message(1, "cart-1", 2, "shop",
			3, message(1, "main", 2, message(1, "nvidia.com/gpu", 2, "GPU-a", 2, "GPU-b::1", 2, "GPU-b::2", 3, message(1, message(1, 1))), 3, 4, 3, 5, 4, message(1, "memory", 2, 77)),
			3, message(1, "helper", 5, message(2, "claim", 3, "shop", 4, message(1, message(1, "gpu.example.com/device=0"), 2, "gpu.example.com", 3, "node0", 4, "gpu-0")))),
		1, message(1, "db-0", 2, "shop", 3, message(1, "main", 3, 1)))
}

func TestDecodeDevices(t *testing.T) {
	want := map[containerName][]Device{
		{"shop", "cart-1", "main"}:   {{"nvidia.com/gpu", "GPU-a"}, {"nvidia.com/gpu", "GPU-b"}},
		{"shop", "cart-1", "helper"}: {{"gpu.example.com", "node0/gpu-0"}},
	}
	got, err := decodeDevices(given())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v, %v\nwant %v", got, err, want)
	}
	var many []any
	for i := range 2 * maxDevices {
		many = append(many, 2, "GPU-"+strings.Repeat("x", i+1))
	}
	got, err = decodeDevices(message(1, message(1, "p", 3, message(1, "c", 2, message(append([]any{1, "r"}, many...)...)))))
	if n := len(got[containerName{"", "p", "c"}]); err != nil || n != maxDevices {
		t.Errorf("%d devices are kept of %d, %v", n, 2*maxDevices, err)
	}
}

func FuzzDecodeDevices(f *testing.F) {
	f.Add(given())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := decodeDevices(b)
		for c, d := range list {
			if err == nil && (len(d) == 0 || len(d) > maxDevices) {
				t.Errorf("%v has %d devices", c, len(d))
			}
		}
	})
}

// resourceServer serves an answer of gRPC on a socket, as a kubelet does.
func resourceServer(t *testing.T, answer http.HandlerFunc) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "kubelet.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(answer)
	_ = s.Listener.Close()
	s.Listener = l
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return socket
}

// frame is a message as gRPC sends it.
func frame(m []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
}

func TestDeviceLister(t *testing.T) {
	reply := func(body []byte, status, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			asked, _ := io.ReadAll(r.Body)
			if r.URL.Path != "/v1.PodResourcesLister/List" || r.ProtoMajor != 2 || r.Header.Get("Te") != "trailers" || string(asked) != "\x00\x00\x00\x00\x00" {
				t.Errorf("asked %s %s %v %q", r.Proto, r.URL, r.Header, asked)
			}
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
			_, _ = w.Write(body)
			w.Header().Set("Grpc-Status", status)
			w.Header().Set("Grpc-Message", text)
		}
	}
	for what, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string // of the error
	}{
		"devices":       {reply(frame(given()), "0", ""), ""},
		"no pods":       {reply(frame(nil), "0", ""), ""},
		"too often":     {reply(nil, "8", "rejected%20by rate limit"), `gRPC status "8": rejected by rate limit`},
		"half a frame":  {reply(frame(given())[:20], "0", ""), "not one whole message"},
		"two messages":  {reply(append(frame(nil), frame(nil)...), "0", ""), "not one whole message"},
		"compressed":    {reply(append([]byte{1}, frame(given())[1:]...), "0", ""), "not one whole message"},
		"no status":     {reply(frame(given()), "", ""), "gRPC status"},
		"not protobuf":  {reply(frame([]byte("garbage")), "0", ""), "can not be read"},
		"nothing of it": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, "404"},
	} {
		t.Run(what, func(t *testing.T) {
			d := NewDeviceLister(resourceServer(t, tt.answer))
			defer d.Close()
			got, err := d.listDevices(t.Context())
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v, %v; want the error %q", got, err, tt.want)
			case what == "devices" && len(got) != 2:
				t.Errorf("%v", got)
			}
		})
	}
	if _, err := NewDeviceLister(filepath.Join(t.TempDir(), "none")).listDevices(context.Background()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a socket: %v", err)
	}
}

// TestGive: devices are asked for only where a pod needs some, and stay known while an answer fails.
func TestGive(t *testing.T) {
	asked, fail := 0, false
	socket := resourceServer(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Trailer", "Grpc-Status")
		if fail {
			w.Header().Set("Grpc-Status", "8")
			return
		}
		_, _ = w.Write(frame(given()))
		w.Header().Set("Grpc-Status", "0")
	})
	s := &Cache{devices: NewDeviceLister(socket)}
	defer s.devices.Close()
	pod := func(resources string) *Pod {
		list, err := Decode(strings.NewReader(`{"items":[{"metadata":{"name":"cart-1","namespace":"shop","uid":"u"},"spec":{"containers":[{"name":"main","resources":{"limits":{` + resources + `}}}]}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		s.addDevices(t.Context(), list)
		return list[0]
	}
	if p := pod(`"cpu":"1","hugepages-2Mi":"2Mi","attachable.kubernetes.io/x":"1"`); asked != 0 || p.Containers[0].Devices != nil || s.DevicesErr() != nil {
		t.Errorf("nothing is needed: asked %d times, %v %v", asked, p.Containers[0].Devices, s.DevicesErr())
	}
	for _, fail = range []bool{false, true} {
		p := pod(`"nvidia.com/gpu":"2"`)
		if want := []Device{{"nvidia.com/gpu", "GPU-a"}, {"nvidia.com/gpu", "GPU-b"}}; !reflect.DeepEqual(p.Containers[0].Devices, want) || (s.DevicesErr() != nil) != fail {
			t.Errorf("failing %v: %v, %v", fail, p.Containers[0].Devices, s.DevicesErr())
		}
	}
	if _ = pod(`"cpu":"1"`); s.DevicesErr() != nil || asked != 2 {
		t.Errorf("nothing is needed any more: %v, asked %d times", s.DevicesErr(), asked)
	}
}
