package server

import (
	"reckon/client"
)

// sender is who sends for a node; nil where nobody shows itself.
func (s *Server) sender(site, node string) *client.NodeSender {
	got, ok := s.senders.Sender(site, node)
	if !ok {
		return nil
	}
	out := &client.NodeSender{Address: got.Address, Since: got.Since, Seen: got.Seen, ClockAheadSeconds: got.Skew.Seconds()}
	if o := got.Other; o != nil {
		out.Other = &client.NodeOther{Address: o.Address, First: o.First, Last: o.Last, Refused: o.Refused, SameMachine: o.ID.Machine != "" && o.ID.Machine == got.ID.Machine}
	}
	return out
}
