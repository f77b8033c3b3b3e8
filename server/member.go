package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/prometheus/storage"

	"reckon/access/auth"
	"reckon/catalogue/database"
	"reckon/internal/durable"
	"reckon/metric"
	"reckon/server/cluster"
	"reckon/store"
	"reckon/web/client"
)

// membership is the state of one of several servers that share a database. Each of them is opened as leader or
// follower, and reopened when that changes.
type membership struct {
	lease  *cluster.Lease
	epoch  int64    // of this leader; 0 follows
	socket *os.File // The listening socket outlives a change of the leader, so that new connections wait meanwhile.
}

// errRoleChanged ends a server after a change of its role.
var errRoleChanged = errors.New("another server leads now")

// Serve opens a server, passes it to opened, and runs it until ctx ends. With [Config.Member], it reopens the server
// whenever the server becomes or stops being the leader, and calls opened again.
func Serve(ctx context.Context, c Config, opened func(*Server)) error {
	if c.Member == "" {
		s, err := Open(ctx, c)
		if err != nil {
			return err
		}
		opened(s)
		return s.Run(ctx)
	}
	m, end, err := joinMembers(ctx, &c)
	if err != nil {
		return err
	}
	defer end()
	for first := true; ; first = false {
		m.epoch = m.lease.Epoch()
		c.member = m
		s, err := Open(ctx, c)
		switch {
		case err != nil && (first || ctx.Err() != nil):
			return err
		case err != nil:
			c.Logger.Error("the server could not be opened in its new role and is tried again", "err", err)
			if sleepFor(ctx, time.Second) != nil {
				return nil
			}
			continue
		case first:
			opened(s)
		}
		if err := s.Run(ctx); !errors.Is(err, errRoleChanged) {
			return err
		}
	}
}

// joinMembers makes this process a member until end is called.
func joinMembers(ctx context.Context, c *Config) (_ *membership, end func(), err error) {
	if c.Store == "" || c.Catalogue == "" {
		return nil, nil, errors.New(
			"one of several servers needs a --store and a --catalogue that all of them reach; see `reckon docs stores`")
	}
	if err := errors.Join(cluster.CheckAddress(c.Member), CheckStores(c.Store, c.Catalogue)); err != nil {
		return nil, nil, err
	}
	ln, err := listenTCP(c.Listen)
	if err != nil {
		return nil, nil, err
	}
	m := &membership{}
	m.socket, err = ln.(*net.TCPListener).File()
	if err = errors.Join(err, ln.Close()); err != nil {
		return nil, nil, err
	}
	db, err := database.DialMember(c.Catalogue)
	if err != nil {
		return nil, nil, errors.Join(err, m.socket.Close())
	}
	db.SetMaxOpenConns(3)
	host, _ := os.Hostname()
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	m.lease, err = cluster.Open(ctx,
		cluster.Options{DB: db, Member: host + " " + hex.EncodeToString(id[:]), Address: strings.TrimRight(c.Member, "/"),
			Version: c.Version, Logger: c.Logger})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("join the servers over %s: %w", HideParameters(c.Catalogue), err), db.Close(),
			m.socket.Close())
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.lease.Run(run)
	}()
	return m, func() {
		cancel()
		<-done
		stop, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := m.lease.Release(stop); err != nil {
			c.Logger.Warn("the lead could not be given back; another server takes it in some seconds", "err", err)
		}
		_, _ = db.Close(), m.socket.Close()
	}, nil
}

// leads reports whether this server was opened to lead. A single server always leads.
func (s *Server) leads() bool { return s.config.member == nil || s.config.member.epoch > 0 }

// watchRole ends the server when its role changes.
func (s *Server) watchRole(ctx context.Context) error {
	m := s.config.member
	for {
		changed := m.lease.Changed()
		if m.lease.Epoch() != m.epoch {
			if m.epoch == 0 {
				s.log.Warn("this server leads now")
			} else {
				s.log.Warn("this server leads no longer", "leader", m.lease.Leader())
			}
			return errRoleChanged
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// maxFollowLag is the maximum age of the list of workloads if another server updates it.
const maxFollowLag = 3 * time.Minute

// watchLeader records up to when the leader has updated the catalogue, so that answers report missing parts.
func (s *Server) watchLeader(ctx context.Context) error {
	return store.Repeat(ctx, 0, 5*time.Second, 0, func(ctx context.Context) error {
		at, err := s.catalogue.Watermark(ctx)
		if now := time.Now(); err == nil && now.Sub(at) > maxFollowLag {
			err = fmt.Errorf("the list of workloads is of %s: no server has made it since", at.UTC().Format(time.RFC3339))
		}
		if ctx.Err() == nil {
			s.behind.recordUpdate(err, time.Now())
			s.caughtUp.Store(true)
		}
		return nil
	}, nil)
}

// leaderStore is the store for writes of the leader: the samples of rules, scrape targets and the batch system. It rejects
// writes while this server is not the leader.
type leaderStore struct {
	storage.AppendableV2
	leads func() error
}

// leaderSeries returns the place where the leader writes.
func (s *Server) leaderSeries() storage.AppendableV2 {
	if s.config.member == nil {
		return s.series
	}
	return leaderStore{s.series, s.mayWrite}
}

// mayWrite returns an error if this server may not write the leader's data.
func (s *Server) mayWrite() error {
	if m := s.config.member; m != nil && !m.lease.Leads(m.epoch) {
		return cluster.ErrNotLeading
	}
	return nil
}

// storeAsLeader appends a batch to the store of the leader.
func (s *Server) storeAsLeader(ctx context.Context, external map[string]string, b *metric.Batch) error {
	if err := s.mayWrite(); err != nil {
		return err
	}
	return s.series.Append(ctx, external, b)
}

func (o leaderStore) AppenderV2(ctx context.Context) storage.AppenderV2 {
	return leaderAppender{o.AppendableV2.AppenderV2(ctx), o.leads}
}

type leaderAppender struct {
	storage.AppenderV2
	leads func() error
}

// Commit implements storage.AppenderV2.
func (a leaderAppender) Commit() error {
	if err := a.leads(); err != nil {
		return errors.Join(err, a.Rollback())
	}
	return a.AppenderV2.Commit()
}

// usersLocationFile is the file of a data directory with the location of users and tokens, if they are stored elsewhere.
const usersLocationFile = "users.elsewhere"

// Users opens the users and tokens of a server, which may be running. They are in its data directory, or in the
// catalogue database if several servers share one. In that case the data directory holds the address of the database.
func Users(ctx context.Context, data, catalogue string) (*auth.Users, error) {
	if catalogue == "" {
		raw, err := os.ReadFile(filepath.Join(data, usersLocationFile))
		if err != nil {
			return auth.Open(data, auth.Options{})
		}
		catalogue = strings.TrimSpace(string(raw))
	}
	db, err := database.DialMember(catalogue)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4)
	users, err := auth.OpenShared(ctx, db, auth.Options{})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the users in %s: %w", HideParameters(catalogue), err), db.Close())
	}
	return users, nil
}

// openUsers opens users and tokens. Those in the directory of a member are moved to the shared database once.
func (s *Server) openUsers(ctx context.Context) (*auth.Users, error) {
	if s.config.member == nil {
		_ = os.Remove(filepath.Join(s.config.Data, usersLocationFile)) // the server is no longer one of several
		return auth.Open(s.config.Data, auth.Options{Logger: s.log})
	}
	users, err := Users(ctx, s.config.Data, s.config.Catalogue)
	if err != nil {
		return nil, err
	}
	if durable.Exists(filepath.Join(s.config.Data, auth.File)) {
		err = s.adoptUsers(ctx, users)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.config.Data, usersLocationFile), []byte(s.config.Catalogue+"\n"), 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, users.Close())
	}
	return users, nil
}

func (s *Server) adoptUsers(ctx context.Context, into *auth.Users) error {
	before, err := auth.Open(s.config.Data, auth.Options{Logger: s.log})
	if err != nil {
		return err
	}
	took, err := into.Adopt(ctx, before)
	if err == nil && took {
		s.log.Warn("users and tokens of the data directory were taken over for all servers", "into", HideParameters(s.config.Catalogue))
	}
	return errors.Join(err, before.Close())
}

// sharedAlerts is the part about alerts that the leader hands over.
type sharedAlerts struct {
	*cluster.Files
	m *membership
}

// Leads implements alerting.Shared.
func (a sharedAlerts) Leads() bool { return a.m.lease.Leads(a.m.epoch) }

// fetchAlerts fetches the previous leader's alert files to dir. The first leader uploads the files in dir instead.
func (m *membership) fetchAlerts(ctx context.Context, dir string) error {
	files := m.lease.Files(m.epoch)
	empty, err := files.Empty(ctx)
	if err != nil || !empty {
		return errors.Join(err, files.Fetch(ctx, dir))
	}
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, file := range list {
		body, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := files.Put(filepath.Base(file), body); err != nil {
			return err
		}
	}
	return nil
}

// forwardedHeader marks a request that one member forwarded to another, so that it is not forwarded again.
const forwardedHeader = "X-Reckon-Passed-On"

// needsLeader reports whether only the leader can serve a request. These are requests for rules, alerts, silences and
// proofs, and changes of findings.
func needsLeader(r *http.Request) bool {
	path := r.URL.Path
	for _, p := range []string{"/alertmanager/", "/api/v1/rules", "/api/v1/alerts", "/api/v1/alertmanagers", "/api/reckon/v1/alerts",
		"/api/reckon/v1/prove"} {
		if path == strings.TrimSuffix(p, "/") || strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
	}
	return r.Method != http.MethodGet && r.Method != http.MethodHead && strings.HasPrefix(path, "/api/reckon/v1/findings")
}

// forwardToLeader forwards requests that only the leader can serve.
func (s *Server) forwardToLeader(own http.Handler) http.Handler {
	if s.leads() {
		return own
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			to, err := url.Parse(s.config.member.lease.Leader())
			if err != nil {
				return // it was checked by the member that wrote it
			}
			r.SetURL(to)
			r.SetXForwarded()
			r.Out.Host = r.In.Host // an Origin is compared with it
			r.Out.Header.Set(forwardedHeader, s.config.member.lease.Address())
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { writeNoLeader(w, err) },
		ErrorLog:     s.http.ErrorLog,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !needsLeader(r):
			own.ServeHTTP(w, r)
		case s.config.member.lease.Leader() == "" || r.Header.Get(forwardedHeader) != "":
			writeNoLeader(w, errors.New("no server leads at this moment"))
		default:
			proxy.ServeHTTP(w, r)
		}
	})
}

func writeNoLeader(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "5")
	w.WriteHeader(http.StatusServiceUnavailable)
	// the client went away
	_ = json.NewEncoder(w).Encode(client.Error{Error: fmt.Sprintf("the server that leads cannot be asked: %v", err),
		Hint: "try again in some seconds"})
}
