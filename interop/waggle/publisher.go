package waggle

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// exchange is the exchange on which a node's data service receives messages of plugins.
	exchange = "to-validator"
	// heartbeat is the silence after which a connection is considered dead.
	heartbeat = 20 * time.Second
	// dialing is the time limit for opening a connection.
	dialing = 5 * time.Second
)

// Publisher sends messages to the RabbitMQ message queue of a Waggle node. It connects on first use and again after the
// connection is lost. It is not safe for concurrent use.
type Publisher struct {
	address      *url.URL
	user         string
	passwordFile string
	appID, scope string

	conn    *amqp.Connection
	channel *amqp.Channel
}

// NewPublisher returns a publisher to an address such as amqp://plugin@rabbitmq:5672?password_file=FILE. The default user is plugin with
// the password plugin, as in Waggle. The option app_id is the identity from Waggle's scheduler (WAGGLE_APP_ID). The option scope is all
// (default), node or beehive and selects the recipients. NewPublisher does not connect yet.
func NewPublisher(address string) (*Publisher, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "amqp" && u.Scheme != "amqps" || u.Host == "" {
		return nil, fmt.Errorf("%q is no address of a message queue; give amqp://USER@HOST:5672?password_file=FILE",
			redactPassword(address))
	}
	q := u.Query()
	p := &Publisher{passwordFile: q.Get("password_file"), appID: q.Get("app_id"), scope: q.Get("scope")}
	for key := range q {
		if key != "password_file" && key != "app_id" && key != "scope" {
			return nil, fmt.Errorf("%s has an option %q; there are password_file, app_id and scope", u.Redacted(), key)
		}
	}
	switch p.scope {
	case "":
		p.scope = "all"
	case "all", "node", "beehive":
	default:
		return nil, fmt.Errorf("scope=%s in %s: give all, node or beehive", p.scope, u.Redacted())
	}
	if _, given := u.User.Password(); given {
		return nil, fmt.Errorf("%s holds a password, which the list of processes shows; write it to a file and give password_file=FILE",
			u.Redacted())
	}
	u.RawQuery = ""
	if p.user = u.User.Username(); p.user == "" {
		p.user = "plugin"
	}
	p.address = u
	return p, nil
}

// redactPassword removes a possible password from an address.
func redactPassword(address string) string {
	if i := strings.LastIndexByte(address, '@'); i >= 0 {
		return "..." + address[i:]
	}
	return address
}

// Publish sends messages to the queue and waits for the confirmation of each one. sent is the number of confirmed messages. After an
// error, the caller must not send these again. If any message violates a rule of Waggle, Publish sends none.
func (p *Publisher) Publish(ctx context.Context, messages []Message) (sent int, err error) {
	bodies := make([][]byte, len(messages))
	for i := range messages {
		if bodies[i], err = messages[i].Encode(); err != nil {
			return 0, err
		}
	}
	if len(bodies) == 0 {
		return 0, nil
	}
	if err := p.connect(); err != nil {
		return 0, err
	}
	var waiting []*amqp.DeferredConfirmation
	for _, body := range bodies {
		c, err := p.channel.PublishWithDeferredConfirmWithContext(ctx, exchange, p.scope, false, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, UserId: p.user, AppId: p.appID, Body: body,
		})
		if err != nil {
			break // some may have arrived: the confirmations show it
		}
		waiting = append(waiting, c)
	}
	for _, c := range waiting {
		ok, err := c.WaitContext(ctx)
		if err != nil || !ok {
			break
		}
		sent++
	}
	if sent < len(bodies) {
		err = p.closeReason()
		p.Close()
		return sent, fmt.Errorf("%s took %d of %d messages: %w", p.address.Redacted(), sent, len(bodies), err)
	}
	return sent, nil
}

// closeReason returns why the queue closed the channel.
func (p *Publisher) closeReason() error {
	closed := make(chan *amqp.Error, 1)
	p.channel.NotifyClose(closed)
	select {
	case err := <-closed:
		if err != nil {
			return err
		}
	case <-time.After(100 * time.Millisecond):
	}
	return errors.New("the connection broke")
}

// connect opens a channel unless there is one.
func (p *Publisher) connect() error {
	if p.channel != nil && !p.channel.IsClosed() && !p.conn.IsClosed() {
		return nil
	}
	p.Close()
	password := "plugin"
	if p.passwordFile != "" {
		raw, err := os.ReadFile(p.passwordFile)
		if err != nil {
			return fmt.Errorf("read the password of the message queue: %w", err)
		}
		password = strings.TrimSpace(string(raw))
	}
	conn, err := amqp.DialConfig(p.address.String(), amqp.Config{
		SASL: []amqp.Authentication{&amqp.PlainAuth{Username: p.user, Password: password}}, Heartbeat: heartbeat,
		Dial: amqp.DefaultDial(dialing), Properties: amqp.Table{"product": "reckon"},
	})
	if err != nil {
		return fmt.Errorf("connect to %s: %w", p.address.Redacted(), err)
	}
	channel, err := conn.Channel()
	if err == nil {
		err = channel.ExchangeDeclarePassive(exchange, amqp.ExchangeDirect, true, false, false, false, nil)
		var refused *amqp.Error
		if errors.As(err, &refused) && refused.Code == amqp.NotFound {
			err = fmt.Errorf("it has no exchange %s: is it the message queue of a Waggle node? (%w)", exchange, err)
		}
		if errors.As(err, &refused) && (refused.Code == amqp.AccessRefused || refused.Code == amqp.PreconditionFailed) {
			// The exchange exists, but may not be inspected or is of another type: plugins may only publish.
			channel, err = conn.Channel()
		}
	}
	if err == nil {
		err = channel.Confirm(false)
	}
	if err != nil {
		_ = conn.Close()
		return fmt.Errorf("open a channel to %s: %w", p.address.Redacted(), err)
	}
	p.conn, p.channel = conn, channel
	return nil
}

// Close closes the connection. Publish reopens it.
func (p *Publisher) Close() {
	if p.conn != nil {
		_ = p.conn.Close()
	}
	p.conn, p.channel = nil, nil
}
