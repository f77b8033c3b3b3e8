package stress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// networkLoad sends bytes over TCP, to itself over the loopback interface or to a peer (see [Sink]).
type networkLoad struct {
	out, in    net.Conn // in is nil with a peer
	buf, inbuf []byte
	sent, got  atomic.Int64
}

// maxNetPiece is the maximum number of bytes sent at once.
const maxNetPiece = 128 << 10

func (n *networkLoad) open(ctx context.Context, peer string) error {
	n.buf, n.inbuf = make([]byte, maxNetPiece), make([]byte, 2*maxNetPiece)
	for i := range n.buf {
		n.buf[i] = byte(i*131 ^ i>>8)
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	if peer != "" {
		c, err := d.DialContext(ctx, "tcp", peer)
		if err != nil {
			return fmt.Errorf("network load: connect to the peer: %w (run `reckon stress --net-sink ADDRESS` there)", err)
		}
		n.out = c
		return nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		if l, err = net.Listen("tcp", "[::1]:0"); err != nil {
			return fmt.Errorf("network load: listen on loopback: %w", err)
		}
	}
	defer l.Close()
	if n.out, err = d.DialContext(ctx, "tcp", l.Addr().String()); err != nil {
		return fmt.Errorf("network load: %w", err)
	}
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(5 * time.Second))
	for {
		c, err := l.Accept()
		if err != nil {
			return errors.Join(fmt.Errorf("network load: %w", err), n.out.Close())
		}
		if c.RemoteAddr().String() == n.out.LocalAddr().String() {
			n.in = c
			return nil
		}
		c.Close() // another client
	}
}

// sendBytes sends up to want bytes and returns the number of bytes sent.
func (n *networkLoad) sendBytes(want int) (int, error) {
	got, err := n.out.Write(n.buf[:want])
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return got, fmt.Errorf("network load: %w", err)
	}
	return got, err
}

// closeSending closes the sending side. Bytes that are under way are still received.
func (n *networkLoad) closeSending() {
	if c, ok := n.out.(*net.TCPConn); ok {
		_ = c.CloseWrite() // a disconnected peer reports its own error
	}
}

// receiveAll receives until the sender has ended.
func (n *networkLoad) receiveAll() {
	if n.in == nil {
		return
	}
	for {
		got, err := n.in.Read(n.inbuf)
		n.got.Add(int64(got))
		if err != nil {
			return
		}
	}
}

func (n *networkLoad) close() error {
	var err error
	if n.out != nil {
		err = n.out.Close()
	}
	if n.in != nil {
		err = errors.Join(err, n.in.Close())
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("network load: close: %w", err)
	}
	return nil
}

// maxSinks limits the number of concurrent connections of a sink.
const maxSinks = 64

// Sink accepts TCP connections from l and discards all data until ctx ends. It sends nothing and
// returns the number of bytes received.
func Sink(ctx context.Context, l net.Listener) (int64, error) {
	var total atomic.Int64
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	places := make(chan struct{}, maxSinks)
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return total.Load(), nil
		}
		if err != nil {
			return total.Load(), fmt.Errorf("accept: %w", err)
		}
		places <- struct{}{}
		go func() {
			defer func() { <-places }()
			closed := context.AfterFunc(ctx, func() { c.Close() })
			defer closed()
			defer c.Close()
			buf := make([]byte, 256<<10)
			for {
				n, err := c.Read(buf)
				total.Add(int64(n))
				if err != nil {
					return // the peer has ended, one way or another
				}
			}
		}()
	}
}
