// Command dns answers for the names of services, and of the pods of headless services, of one cluster: A records of
// cluster.local, read from the API server on demand, at most once a second. Other names do not exist.
//
//	dns ADDRESS:PORT API-SERVER CA CERTIFICATE KEY
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func main() {
	if len(os.Args) != 6 {
		log.Fatal("dns ADDRESS:PORT API-SERVER CA CERTIFICATE KEY")
	}
	ca, err := os.ReadFile(os.Args[3])
	cert, problem := tls.LoadX509KeyPair(os.Args[4], os.Args[5])
	if err := errors.Join(err, problem); err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	c := &cluster{api: os.Args[2], web: &http.Client{Timeout: 5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}}}}}
	socket, err := net.ListenPacket("udp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for buffer := make([]byte, 1500); ; {
		n, from, err := socket.ReadFrom(buffer)
		if err != nil {
			log.Fatal(err)
		}
		if answer := c.answer(buffer[:n]); answer != nil {
			_, _ = socket.WriteTo(answer, from)
		}
	}
}

// cluster has the addresses of names as of a time.
type cluster struct {
	api   string
	web   *http.Client
	at    time.Time
	names map[string][][4]byte
}

func (c *cluster) get(path string, to any) error {
	r, err := c.web.Get(c.api + path)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, r.Status)
	}
	return json.NewDecoder(r.Body).Decode(to)
}

// read lists services and their endpoints. If that fails, it keeps the previous ones.
func (c *cluster) read() error {
	type meta struct {
		Namespace, Name string
		Labels          map[string]string
	}
	var services struct {
		Items []struct {
			Metadata meta
			Spec     struct{ ClusterIP string }
		}
	}
	var slices struct {
		Items []struct {
			Metadata  meta
			Endpoints []struct {
				Addresses  []string
				Hostname   string
				Conditions struct{ Ready *bool }
			}
		}
	}
	if err := errors.Join(c.get("/api/v1/services", &services), c.get("/apis/discovery.k8s.io/v1/endpointslices", &slices)); err != nil {
		return err
	}
	names := map[string][][4]byte{}
	put := func(name, address string) {
		list := names[name] // a name without addresses exists
		if ip := net.ParseIP(address).To4(); ip != nil {
			list = append(list, [4]byte(ip))
		}
		names[name] = list
	}
	headless := map[string]bool{}
	for _, s := range services.Items {
		name := s.Metadata.Name + "." + s.Metadata.Namespace + ".svc.cluster.local."
		headless[name] = s.Spec.ClusterIP == "None"
		put(name, s.Spec.ClusterIP)
	}
	for _, s := range slices.Items {
		name := s.Metadata.Labels["kubernetes.io/service-name"] + "." + s.Metadata.Namespace + ".svc.cluster.local."
		for _, e := range s.Endpoints {
			if !headless[name] || e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, a := range e.Addresses {
				put(name, a)
				if e.Hostname != "" {
					put(e.Hostname+"."+name, a)
				}
			}
		}
	}
	c.names, c.at = names, time.Now()
	return nil
}

func (c *cluster) answer(question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	if time.Since(c.at) > time.Second {
		if err := c.read(); err != nil {
			log.Print(err)
		}
	}
	q := m.Questions[0]
	addresses, exists := c.names[strings.ToLower(q.Name.String())]
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	if !exists {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addresses {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 5}, Body: &dnsmessage.AResource{A: a}})
		}
	}
	text, _ := m.Pack() // nil with an error
	return text
}
