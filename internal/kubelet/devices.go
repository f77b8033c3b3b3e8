package kubelet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Device is a device that the kubelet gave to a container: a GPU, by a device plugin or by dynamic resource allocation.
type Device struct {
	// Resource is the name that is requested, such as nvidia.com/gpu, or the driver of a claim.
	Resource string
	// ID is the plugin's name of the device, such as GPU-UUID, without the number of a share; for a
	// claim it is POOL/DEVICE.
	ID string
}

// DefaultFolder is the kubelet's folder; DeviceSocket is the place where it serves its pod resources, below that.
const (
	DefaultFolder = "/var/lib/kubelet"
	DeviceSocket  = "pod-resources/kubelet.sock"
)

// Limits of an answer: the kubelet's own limit of a message, and the devices kept per container.
const (
	maxMessage    = 16 << 20
	maxDevices    = 64
	deviceTimeout = 5 * time.Second
)

// containerName names a container of a node.
type containerName struct{ namespace, pod, container string }

// DeviceLister queries the kubelet for the devices of containers: gRPC on a local socket, method List of
// v1.PodResourcesLister (https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/). It
// requires write permission on the socket, which belongs to root, but no rights in the cluster.
//
// A single method with an empty request needs no gRPC library. It is a POST over HTTP/2, which net/http supports, and
// each message has a prefix of five bytes (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
type DeviceLister struct {
	http   *http.Client
	socket string
}

// NewDeviceLister returns a lister for a socket without querying it.
func NewDeviceLister(socket string) *DeviceLister {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		Protocols: new(http.Protocols), IdleConnTimeout: 2 * Interval,
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	return &DeviceLister{http: &http.Client{Transport: t, Timeout: deviceTimeout}, socket: socket}
}

// Close ends idle connections.
func (d *DeviceLister) Close() { d.http.CloseIdleConnections() }

// listDevices queries the devices of all containers. The error for a missing socket matches fs.ErrNotExist.
func (d *DeviceLister) listDevices(ctx context.Context) (map[containerName][]Device, error) {
	if _, err := os.Stat(d.socket); err != nil {
		return nil, fmt.Errorf("ask for the devices of pods: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://kubelet/v1.PodResourcesLister/List",
		bytes.NewReader(make([]byte, 5)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for the devices of pods: %w", err)
	}
	defer resp.Body.Close()
	message, err := readMessage(resp)
	if err != nil {
		return nil, fmt.Errorf("the kubelet does not list the devices of pods: %w", err)
	}
	return decodeDevices(message)
}

// readMessage reads the single message of a gRPC response.
func readMessage(resp *http.Response) ([]byte, error) {
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage+6))
	if err != nil {
		return nil, err
	}
	status, text := resp.Trailer.Get("Grpc-Status"), resp.Trailer.Get("Grpc-Message")
	if status == "" { // an answer without a message has them in its head
		status, text = resp.Header.Get("Grpc-Status"), resp.Header.Get("Grpc-Message")
	}
	if status != "0" {
		if plain, err := url.PathUnescape(text); err == nil {
			text = plain
		}
		return nil, fmt.Errorf("gRPC status %q: %.200s", status, text)
	}
	if len(body) < 5 || body[0] != 0 || uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-5) {
		return nil, errors.New("the answer is not one whole message")
	}
	return body[5:], nil
}

var errMalformed = errors.New("the list of devices can not be read")

// protoField is one field of a message.
type protoField struct {
	number protowire.Number
	value  []byte // nil if it is no text, bytes or message
}

// eachField calls f for each field of a message.
func eachField(message []byte, f func(protoField) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errMalformed
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return errMalformed
		}
		x := protoField{number: number}
		if kind == protowire.BytesType {
			x.value, _ = protowire.ConsumeBytes(message)
		}
		if err := f(x); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

// decodeDevices decodes a ListPodResourcesResponse
// (https://github.com/kubernetes/kubelet/blob/master/pkg/apis/podresources/v1/api.proto).
func decodeDevices(message []byte) (map[containerName][]Device, error) {
	out := map[containerName][]Device{}
	err := eachField(message, func(pod protoField) error {
		if pod.number != 1 {
			return nil
		}
		var at containerName
		var containers [][]byte
		if err := eachField(pod.value, func(f protoField) error {
			switch f.number {
			case 1:
				at.pod = string(f.value)
			case 2:
				at.namespace = string(f.value)
			case 3:
				containers = append(containers, f.value)
			}
			return nil
		}); err != nil {
			return err
		}
		for _, c := range containers {
			name, devices, err := decodeContainer(c)
			if err != nil {
				return err
			}
			if at.container = name; len(devices) > 0 {
				out[at] = devices
			}
		}
		return nil
	})
	return out, err
}

// decodeContainer reads a ContainerResources.
func decodeContainer(message []byte) (name string, devices []Device, err error) {
	err = eachField(message, func(f protoField) error {
		switch f.number {
		case 1:
			name = string(f.value)
		case 2: // ContainerDevices
			var resource string
			return eachField(f.value, func(f protoField) error {
				switch f.number {
				case 1:
					resource = string(f.value)
				case 2:
					id, _, _ := strings.Cut(string(f.value), "::") // shares of one GPU are ID::NUMBER
					devices = addDevice(devices, Device{resource, id})
				}
				return nil
			})
		case 5: // DynamicResource
			return eachField(f.value, func(f protoField) error {
				if f.number != 4 { // ClaimResource
					return nil
				}
				var driver, pool, device string
				err := eachField(f.value, func(f protoField) error {
					switch f.number {
					case 2:
						driver = string(f.value)
					case 3:
						pool = string(f.value)
					case 4:
						device = string(f.value)
					}
					return nil
				})
				if driver != "" && device != "" {
					devices = addDevice(devices, Device{driver, pool + "/" + device})
				}
				return err
			})
		}
		return nil
	})
	return name, devices, err
}

// addDevice adds a device to a bounded list if it is not in it.
func addDevice(list []Device, d Device) []Device {
	if len(list) >= maxDevices || d.ID == "" {
		return list
	}
	for _, x := range list {
		if x == d {
			return list
		}
	}
	return append(list, d)
}
