package probe

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"reckon/internal/quantiles"
	"reckon/web/client"
)

// probeQuestion is the first line of a network probe connection, as JSON. For the kind "echo", the server returns each
// message of Size bytes. For "sink", it reads until the other side has sent everything, and returns the number of bytes
// as 8 bytes, big endian. For "pair", it measures the network from here to Host and returns a client.ProbePair as JSON.
type probeQuestion struct {
	Kind     string        `json:"kind"`
	Size     int           `json:"size,omitempty"`
	Host     string        `json:"host,omitempty"`
	Trials   int           `json:"trials,omitempty"`
	Duration time.Duration `json:"duration,omitempty"`
}

// Limits on requests of another pod.
const (
	maxMessage  = 1 << 20
	maxTrials   = 1_000_000
	maxDuration = time.Minute
	maxQuestion = 1 << 10
)

// maxPeerWait is the time that a requested pod waits for the other one of the pair, because its name may not be known everywhere yet.
const maxPeerWait = 30 * time.Second

// NetworkOptions configures the probe of the network between pods.
type NetworkOptions struct {
	// Hosts are all pods, this one first.
	Hosts []string
	// Port is the port on which each host serves.
	Port string
	// Trials is the number of round trips of Message bytes.
	Trials, Message int
	// Duration is for how long one stream sends.
	Duration time.Duration
	// Patience is for how long a pod that is not there yet is waited for.
	Patience time.Duration
}

// ServeNetwork answers the network probes of other pods until ctx ends. port is the port at which it reaches other
// pods.
func ServeNetwork(ctx context.Context, l net.Listener, port string) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		go func() {
			defer c.Close()
			_ = serveQuestion(ctx, c, port)
		}()
	}
}

func serveQuestion(ctx context.Context, c net.Conn, port string) error {
	_ = c.SetDeadline(time.Now().Add(2*maxDuration + time.Minute))
	in := bufio.NewReaderSize(c, 64<<10)
	line, err := in.ReadSlice('\n')
	if err != nil || len(line) > maxQuestion {
		return errors.Join(err, errors.New("no question"))
	}
	var q probeQuestion
	if err := json.Unmarshal(line, &q); err != nil {
		return err
	}
	switch q.Kind {
	case "echo":
		return echoMessages(c, in, q.Size)
	case "sink":
		n, err := io.Copy(io.Discard, in)
		if err != nil {
			return err
		}
		return binary.Write(c, binary.BigEndian, n)
	case "pair":
		if q.Trials > maxTrials || q.Size > maxMessage || q.Duration > maxDuration {
			return errors.New("too much is asked for")
		}
		p := measurePair(ctx, q, port, maxPeerWait)
		return json.NewEncoder(c).Encode(p)
	}
	return fmt.Errorf("unknown question %q", q.Kind)
}

func echoMessages(c net.Conn, in io.Reader, size int) error {
	if size < 1 || size > maxMessage {
		return errors.New("bad size")
	}
	message := make([]byte, size)
	for {
		if _, err := io.ReadFull(in, message); err != nil {
			return nil // the other side has enough
		}
		if _, err := c.Write(message); err != nil {
			return err
		}
	}
}

// Network measures every pair of hosts, one after the other so that they do not disturb each other.
func Network(ctx context.Context, o NetworkOptions) (*client.ProbeResult, error) {
	if o.Message < 1 || o.Message > maxMessage || o.Trials < 1 || o.Trials > maxTrials || o.Duration <= 0 || o.Duration > maxDuration {
		return nil, fmt.Errorf("%d trials of %d bytes and %s are beyond the limits: %d, %d and %s", o.Trials, o.Message,
			o.Duration, maxTrials, maxMessage, maxDuration)
	}
	r := &client.ProbeResult{Metric: "network-probe", From: time.Now(), Figures: map[string]float64{"message_bytes": float64(o.Message)}}
	for i, from := range o.Hosts {
		for j, to := range o.Hosts {
			if i == j {
				continue
			}
			q := probeQuestion{Kind: "pair", Host: to, Size: o.Message, Trials: o.Trials, Duration: o.Duration}
			var p client.ProbePair
			if i == 0 { // that is us
				p = measurePair(ctx, q, o.Port, o.Patience)
			} else {
				p = askPair(ctx, from, q, o)
			}
			p.From, p.To = from, to
			r.Pairs = append(r.Pairs, p)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
	}
	r.To = time.Now()
	for _, p := range r.Pairs {
		if p.Error == "" {
			return r, nil
		}
	}
	if len(r.Pairs) > 0 {
		return r, fmt.Errorf("no pair could be measured: %s", r.Pairs[0].Error)
	}
	return r, nil
}

// askPair makes another pod measure the network to a third one. It retries while the name of that pod does not resolve.
func askPair(ctx context.Context, from string, q probeQuestion, o NetworkOptions) (p client.ProbePair) {
	deadline := time.Now().Add(o.Patience)
	for {
		c, err := sendQuestion(ctx, from, o.Port, q)
		if err == nil {
			defer c.Close()
			if err = json.NewDecoder(io.LimitReader(c, 1<<20)).Decode(&p); err != nil {
				p.Error = fmt.Sprintf("%s does not answer: %v", from, err)
			}
			return p
		}
		if !waitRetry(ctx, deadline) {
			p.Error = err.Error()
			return p
		}
	}
}

// sendQuestion connects and sends the request.
func sendQuestion(ctx context.Context, host, port string, q probeQuestion) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(2*maxDuration + time.Minute))
	line, err := json.Marshal(q)
	if err == nil {
		_, err = c.Write(append(line, '\n'))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// measurePair measures from here to a host, which may not exist yet.
func measurePair(ctx context.Context, q probeQuestion, port string, patience time.Duration) (p client.ProbePair) {
	for deadline := time.Now().Add(patience); ; {
		d := net.Dialer{Timeout: 5 * time.Second}
		c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(q.Host, port))
		if err == nil {
			c.Close()
			break
		}
		if !waitRetry(ctx, deadline) {
			p.Error = err.Error()
			return p
		}
	}
	if err := measureRoundTrips(ctx, &p, q, port); err != nil {
		p.Error = err.Error()
		return p
	}
	if err := measureThroughput(ctx, &p, q, port); err != nil {
		p.Error = err.Error()
	}
	return p
}

func measureRoundTrips(ctx context.Context, p *client.ProbePair, q probeQuestion, port string) error {
	c, err := sendQuestion(ctx, q.Host, port, probeQuestion{Kind: "echo", Size: q.Size})
	if err != nil {
		return err
	}
	defer c.Close()
	message, took := make([]byte, q.Size), make([]time.Duration, 0, q.Trials)
	const warmUp = 10
	for i := range q.Trials + warmUp {
		began := time.Now()
		if _, err := c.Write(message); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, message); err != nil {
			return err
		}
		if i >= warmUp {
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	p.Trials = len(took)
	p.MinSeconds, p.MaxSeconds = took[0].Seconds(), took[len(took)-1].Seconds()
	p.MedianSeconds, p.P99Seconds = quantiles.Nearest(took, 0.5).Seconds(), quantiles.Nearest(took, 0.99).Seconds()
	return nil
}

// measureThroughput returns the bytes received by the other side per second until its report.
func measureThroughput(ctx context.Context, p *client.ProbePair, q probeQuestion, port string) error {
	c, err := sendQuestion(ctx, q.Host, port, probeQuestion{Kind: "sink"})
	if err != nil {
		return err
	}
	defer c.Close()
	block, began := make([]byte, 256<<10), time.Now()
	for time.Since(began) < q.Duration && ctx.Err() == nil {
		if _, err := c.Write(block); err != nil {
			return err
		}
	}
	if t, ok := c.(*net.TCPConn); ok {
		if err := t.CloseWrite(); err != nil {
			return err
		}
	}
	var received int64
	if err := binary.Read(c, binary.BigEndian, &received); err != nil {
		return err
	}
	p.BytesPerSecond = float64(received) / time.Since(began).Seconds()
	return nil
}

// waitRetry waits a moment before the next attempt. It returns false if there must not be one.
func waitRetry(ctx context.Context, deadline time.Time) bool {
	if time.Now().After(deadline) || ctx.Err() != nil {
		return false
	}
	select {
	case <-ctx.Done():
	case <-time.After(200 * time.Millisecond):
	}
	return true
}
