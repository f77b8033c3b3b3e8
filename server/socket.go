package server

// openSocket opens the socket through which local scripts send their own figures.
func (s *Server) openSocket() error {
	c := &s.config
	if c.Socket == "" || c.Agent.Replay != "" {
		return nil
	}
	var err error
	s.socket, err = s.agent.Listen(c.Socket)
	if err == nil || c.SocketWanted {
		return err
	}
	s.log.Info("`reckon push` does not work with this server", "reason", err)
	return nil
}
