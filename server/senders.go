package server

import (
	"context"
	"time"

	"reckon/web/client"
)

// shareEvery is the interval at which the members of a cluster exchange their senders.
const shareEvery = 5 * time.Second

// shareSenders exchanges the known senders with the other servers. While the database is unavailable, each server uses
// only the senders that it knows.
func (s *Server) shareSenders(ctx context.Context) {
	all, err := s.config.member.lease.Share(ctx, s.senders.Claims())
	if err != nil {
		s.log.Debug("other servers could not be informed about senders", "err", err)
		return
	}
	s.senders.Learn(all)
}

func (s *Server) runSenders(ctx context.Context) error {
	for sleepFor(ctx, shareEvery) == nil {
		s.shareSenders(ctx)
	}
	return nil
}

// replaceNode releases a name at all servers.
func (s *Server) replaceNode(site, node string) bool {
	had := s.senders.Release(site, node)
	if m := s.config.member; m != nil {
		ctx, cancel := context.WithTimeout(context.Background(), shareEvery)
		defer cancel()
		if err := m.lease.Forget(ctx, site, node); err != nil {
			s.log.Warn("other servers could not be informed that a name was given away", "node", node, "err", err)
		}
		s.shareSenders(ctx)
	}
	return had
}

// refusedOwners returns the owners with new series of a node that were refused lately.
func (s *Server) refusedOwners(site, node string) (out []client.NodeBound) {
	for _, r := range s.limits.Refused() {
		if r.Site == site && r.Node == node {
			out = append(out, client.NodeBound{Owner: r.Owner, Kind: "new series", Count: float64(r.Series)})
		}
	}
	return out
}

// sender returns the sender for a node; nil if it is unknown.
func (s *Server) sender(site, node string) *client.NodeSender {
	got, ok := s.senders.Sender(site, node)
	if !ok {
		return nil
	}
	out := &client.NodeSender{Address: got.Address, Since: got.Since, Seen: got.Seen, ClockAheadSeconds: got.Skew.Seconds()}
	if o := got.Other; o != nil {
		out.Other = &client.NodeOther{Address: o.Address, First: o.First, Last: o.Last, Refused: o.Refused,
			SameMachine: o.ID.Machine != "" && o.ID.Machine == got.ID.Machine}
	}
	return out
}
