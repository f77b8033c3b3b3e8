package waggle

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// broker runs a RabbitMQ for the test, with Waggle's user, and returns its address and functions to stop and start it.
func broker(t *testing.T) (address string, stop, start func()) {
	t.Helper()
	const script = "/usr/lib/rabbitmq/bin/rabbitmq-server" // the one in PATH changes its user
	if _, err := os.Stat(script); err != nil {
		t.Skip("needs rabbitmq-server; apt-get install rabbitmq-server")
	}
	if testing.Short() {
		t.Skip("starts a RabbitMQ")
	}
	dir := t.TempDir()
	port, dist, epmd := freePort(t), freePort(t), freePort(t)
	conf := filepath.Join(dir, "rabbitmq.conf")
	if err := os.WriteFile(conf, []byte("listeners.tcp.1 = 127.0.0.1:"+port+"\ndefault_user = plugin\ndefault_pass = secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "HOME="+dir, "RABBITMQ_NODENAME=reckon@localhost", "RABBITMQ_CONFIG_FILE="+conf, "RABBITMQ_MNESIA_BASE="+dir, "RABBITMQ_LOG_BASE="+dir,
		"RABBITMQ_PID_FILE="+filepath.Join(dir, "pid"), "RABBITMQ_DIST_PORT="+dist, "ERL_EPMD_PORT="+epmd, "RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(dir, "plugins"),
		"RABBITMQ_NODE_PORT="+port, "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1")
	var cmd *exec.Cmd
	stop = func() {
		if cmd == nil {
			return
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		cmd = nil
	}
	start = func() {
		t.Helper()
		cmd = exec.CommandContext(t.Context(), script)
		cmd.Env = env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		log, err := os.Create(filepath.Join(dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for range 1200 {
			if c, err := amqp.Dial("amqp://plugin:secret@127.0.0.1:" + port); err == nil {
				_ = c.Close()
				return
			}
			<-time.After(100 * time.Millisecond) // another program is starting
		}
		out, _ := os.ReadFile(filepath.Join(dir, "out"))
		t.Fatalf("RabbitMQ does not answer:\n%s", out)
	}
	names := exec.CommandContext(t.Context(), "epmd", "-address", "127.0.0.1", "-port", epmd) // otherwise Erlang starts one that keeps running
	if err := names.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = names.Process.Kill()
		_ = names.Wait()
	})
	start()
	return "127.0.0.1:" + port, stop, start
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// TestRabbitMQ publishes like a plugin of a Waggle node to the exchange of its data service, through a restart of the
// broker, and reads back what its data service would receive.
func TestRabbitMQ(t *testing.T) {
	address, stop, start := broker(t)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := NewPublisher("amqp://plugin@" + address + "?app_id=app-1&password_file=" + password)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	batch := func(from, n int) (list []Message) {
		for i := range n {
			list = append(list, Message{Name: "reckon.node.cpu_cores", Value: float64(from + i), Time: noon, Meta: map[string]string{"host": "n1"}})
		}
		return list
	}
	if _, err := p.Publish(t.Context(), batch(0, 1)); err == nil || !strings.Contains(err.Error(), "Waggle node") {
		t.Fatalf("no exchange: %v", err)
	}
	ch := dataService(t, address)
	if n, err := p.Publish(t.Context(), batch(0, 500)); n != 500 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	stop()
	if n, err := p.Publish(t.Context(), batch(500, 10)); n != 0 || err == nil {
		t.Fatalf("%d, %v: nobody is there", n, err)
	}
	start()
	if n, err := p.Publish(t.Context(), batch(500, 10)); n != 10 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	ch = again(t, address, ch)
	for i := range 510 {
		d, ok, err := ch.Get("validator", true)
		if err != nil || !ok {
			t.Fatalf("message %d: %v, %v", i, ok, err)
		}
		var m struct {
			Name string
			Val  float64
			TS   int64
			Meta map[string]string
		}
		if err := json.Unmarshal(d.Body, &m); err != nil || m.Val != float64(i) || m.TS != noon.UnixNano() || m.Meta["host"] != "n1" {
			t.Fatalf("message %d: %s, %v", i, d.Body, err)
		}
		if d.UserId != "plugin" || d.AppId != "app-1" || d.DeliveryMode != amqp.Persistent || d.RoutingKey != "all" {
			t.Fatalf("message %d: %+v", i, d)
		}
	}
	if _, ok, _ := ch.Get("validator", true); ok {
		t.Error("a message came twice")
	}
	if err := os.WriteFile(password, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if _, err := p.Publish(t.Context(), batch(0, 1)); err == nil || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong password: %v", err)
	} else {
		t.Log(err)
	}
}

// dataService creates what the data service of a node creates: the exchange, and a queue that receives everything.
func dataService(t *testing.T, address string) *amqp.Channel {
	t.Helper()
	ch := again(t, address, nil)
	if err := ch.ExchangeDeclare(exchange, amqp.ExchangeDirect, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("validator", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for _, scope := range []string{"all", "node", "beehive"} {
		if err := ch.QueueBind("validator", scope, exchange, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	return ch
}

func again(t *testing.T, address string, _ *amqp.Channel) *amqp.Channel {
	t.Helper()
	c, err := amqp.Dial(fmt.Sprintf("amqp://plugin:secret@%s", address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}
