//go:build e2e_k8s

package k8s

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The protocol of device plugins (https://github.com/kubernetes/kubelet/blob/master/pkg/apis/deviceplugin/v1beta1/api.proto), as
// far as it takes to offer devices that do nothing.
const (
	gpuResource = "example.com/gpu"
	pluginName  = "reckon-e2e.sock"

	resourcesWithin = 90 * time.Second
)

// frame is a message as gRPC sends it.
func frame(m []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
}

// text appends a field of text, or of a message.
func text[T string | []byte](m []byte, number protowire.Number, v T) []byte {
	return protowire.AppendBytes(protowire.AppendTag(m, number, protowire.BytesType), []byte(v))
}

// h2c makes a client that speaks HTTP/2 on a socket.
func h2c(socket string) *http.Client {
	t := &http.Transport{Dial: func(string, string) (net.Conn, error) { return net.Dial("unix", socket) }, Protocols: new(http.Protocols)}
	t.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: t}
}

// offer is a device plugin with two devices, until the test ends.
func (b *bed) offer(t *testing.T) {
	folder := filepath.Join(b.state, b.node, "kubelet", "device-plugins")
	l, err := net.Listen("unix", filepath.Join(folder, pluginName))
	if err != nil {
		t.Fatal(err)
	}
	ends := make(chan struct{})
	answer := func(w http.ResponseWriter, m []byte) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write(frame(m))
		w.Header().Set("Grpc-Status", "0")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1beta1.DevicePlugin/GetDevicePluginOptions", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("/v1beta1.DevicePlugin/ListAndWatch", func(w http.ResponseWriter, r *http.Request) {
		var list []byte
		for _, id := range []string{"GPU-one", "GPU-two"} {
			list = text(list, 1, text(text(nil, 1, id), 2, "Healthy"))
		}
		answer(w, list)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-ends:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/v1beta1.DevicePlugin/Allocate", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w, text(nil, 1, "")) // for the one container of each pod: nothing is mounted
	})
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { close(ends); _ = server.Close() })
	request := text(text(text(nil, 1, "v1beta1"), 2, pluginName), 3, gpuResource)
	resp, err := h2c(filepath.Join(folder, "kubelet.sock")).Post("http://kubelet/v1beta1.Registration/Register", "application/grpc", bytes.NewReader(frame(request)))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if s := resp.Trailer.Get("Grpc-Status") + resp.Header.Get("Grpc-Status"); s != "0" {
		t.Fatalf("the kubelet does not take the device plugin: status %q %v %v", s, resp.Header, resp.Trailer)
	}
}

// devices: who was given which GPU is known, of a plugin's two; they are requested, and used by nobody.
func (b *bed) devices(t *testing.T) {
	b.offer(t)
	b.until(resourcesWithin, "the node has GPUs", func() string {
		if n := b.must("kubectl", "get", "node", b.node, "-o", `jsonpath={.status.allocatable.example\.com/gpu}`); n != "2" {
			return n
		}
		return ""
	})
	c := container("main", burn)
	c["resources"] = object{"limits": object{gpuResource: "2", "cpu": "300m", "memory": "64Mi"}}
	b.apply(named("Pod", "v1", "learner", pod("Always", c)))
	b.until(resourcesWithin, "its devices", func() string {
		list, err := b.query(`reckon_container_device_info{workload="pod/shop/learner",part="main",resource="example.com/gpu"}`)
		if err != nil {
			return err.Error()
		}
		var ids []string
		for _, s := range list {
			ids = append(ids, s.Labels["device"])
		}
		if slices.Sort(ids); !slices.Equal(ids, []string{"GPU-one", "GPU-two"}) {
			return fmt.Sprint(ids)
		}
		return ""
	})
	if list, err := b.query(`reckon_workload_request_gpus{workload="pod/shop/learner"}`); err != nil || len(list) != 1 || list[0].Value != "2" {
		t.Errorf("it requests %v GPUs, %v", list, err)
	}
	if list, err := b.query(`reckon_sensor_up{sensor="pod-devices"} == 0`); err != nil || len(list) != 0 {
		t.Errorf("the sensor is down: %v %v", list, err)
	}
	b.must("kubectl", "-n", "shop", "delete", "pod", "learner", "--now")
}
