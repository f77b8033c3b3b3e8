// Command peer is what the tests run in pods beside reckon: a program that opens links, receivers of alerts and mails, and pairs that
// count themselves.
//
//	peer open CA TOKEN       open the URLs of standard input; print "STATUS BYTES URL" for each
//	peer post CA TOKEN URL   post the JSON of standard input
//	peer sink                webhooks at :8080, mails at :2525; GET /webhooks and /mails return what came
//	peer pair HOST PORT RATE SECONDS   two pods of one Job: the second sends so many bytes a second to the first at HOST; each prints its counts
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	switch os.Args[1] {
	case "open":
		links := bufio.NewScanner(os.Stdin)
		for ask := asker(os.Args[2], os.Args[3]); links.Scan(); {
			fmt.Println(ask(http.MethodGet, links.Text(), nil), links.Text())
		}
	case "post":
		fmt.Println(asker(os.Args[2], os.Args[3])(http.MethodPost, os.Args[4], os.Stdin))
	case "sink":
		sink()
	case "pair":
		rate, _ := strconv.Atoi(os.Args[4])
		seconds, _ := strconv.Atoi(os.Args[5])
		pair(os.Args[2], os.Args[3], rate, seconds)
	}
}

// asker returns a client that shows a token: its answer is the status and the bytes of an answer, or 0 0 and the error.
func asker(ca, token string) func(method, url string, body io.Reader) string {
	pem, err := os.ReadFile(ca)
	secret, problem := os.ReadFile(token)
	if err := errors.Join(err, problem); err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	web := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	return func(method, url string, body io.Reader) string {
		r, err := http.NewRequest(method, url, body)
		if err != nil {
			return fmt.Sprint("0 0 ", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
		r.Header.Set("Content-Type", "application/json")
		a, err := web.Do(r)
		if err != nil {
			return fmt.Sprint("0 0 ", err)
		}
		defer a.Body.Close()
		n, _ := io.Copy(io.Discard, a.Body)
		return fmt.Sprint(a.StatusCode, " ", n)
	}
}

// sink keeps bodies of webhooks and texts of mails.
func sink() {
	var mu sync.Mutex
	got := map[string][]string{}
	keep := func(kind, text string) {
		mu.Lock()
		defer mu.Unlock()
		got[kind] = append(got[kind], text)
		log.Println(kind, len(text))
	}
	l, err := net.Listen("tcp", ":2525")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				log.Fatal(err)
			}
			go mail(c, func(text string) { keep("mails", text) })
		}
	}()
	log.Fatal(http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			text, _ := io.ReadAll(r.Body)
			keep("webhooks", string(text))
			return
		}
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(w).Encode(got[strings.Trim(r.URL.Path, "/")])
	})))
}

// mail takes the mails of one connection of SMTP (RFC 5321), without extensions.
func mail(c net.Conn, keep func(string)) {
	defer c.Close()
	in := bufio.NewReader(c)
	fmt.Fprint(c, "220 sink ESMTP\r\n")
	text := ""
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch word := strings.ToUpper(strings.TrimSpace(line)); {
		case strings.HasPrefix(word, "MAIL"):
			text = line
			fmt.Fprint(c, "250 ok\r\n")
		case strings.HasPrefix(word, "RCPT"):
			text += line
			fmt.Fprint(c, "250 ok\r\n")
		case word == "DATA":
			fmt.Fprint(c, "354 go on\r\n")
			for {
				l, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if l == ".\r\n" {
					break
				}
				text += strings.TrimPrefix(l, ".")
			}
			keep(text)
			fmt.Fprint(c, "250 kept\r\n")
		case word == "QUIT":
			fmt.Fprint(c, "221 bye\r\n")
			return
		default:
			fmt.Fprint(c, "250 sink\r\n")
		}
	}
}

// pair is two ranks of one program: rank 0 returns what rank 1 sends, and each works half of the time.
func pair(host, port string, rate, seconds int) {
	var c net.Conn
	rank := os.Getenv("JOB_COMPLETION_INDEX")
	if rank == "0" {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			log.Fatal(err)
		}
		if c, err = l.Accept(); err != nil {
			log.Fatal(err)
		}
	} else {
		var err error
		for range 240 { // until the name is there and the other listens
			if c, err = net.Dial("tcp", net.JoinHostPort(host, port)); err == nil {
				break
			}
			time.Sleep(500 * time.Millisecond)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	var out, in int64
	done := make(chan struct{})
	went := time.Now()
	go func() {
		defer close(done)
		if rank == "0" {
			in, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c}) // by read and write: splice is not counted everywhere
			out = in
			_ = c.(*net.TCPConn).CloseWrite()
			return
		}
		in, _ = io.Copy(io.Discard, c)
	}()
	for i := range seconds * 20 {
		if rank == "1" {
			n, err := c.Write(make([]byte, rate/20))
			if out += int64(n); err != nil {
				log.Fatal(err)
			}
		}
		for until := time.Now().Add(24 * time.Millisecond); time.Now().Before(until); {
		}
		time.Sleep(time.Until(went.Add(time.Duration(i+1) * 50 * time.Millisecond)))
	}
	took := time.Since(went).Seconds()
	if rank == "1" {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	<-done
	var use syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &use)
	fmt.Printf("{\"rank\": %q, \"out\": %d, \"in\": %d, \"seconds\": %.3f, \"cpu\": %.6f}\n", rank, out, in, took,
		float64(use.Utime.Nano()+use.Stime.Nano())/1e9)
}
