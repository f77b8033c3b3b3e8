package server

import (
	"reckon/transport/limits"
	"reckon/transport/scraping"
	"reckon/web/promapi"
)

// openScraper reads which targets to scrape.
func (s *Server) openScraper() error {
	if s.config.ScrapeConfig == "" {
		return nil
	}
	var err error
	s.scraper, err = scraping.Open(scraping.Options{
		File: s.config.ScrapeConfig, Store: s.leaderSeries(), Describe: s.series.Describe, Logger: s.log,
		Begin: func() (*limits.Request, error) { return s.limits.Begin(scrapeSender, limits.Bound{}) }, // as a sender's
	})
	return err
}

// targets returns the scraped targets, for the HTTP API.
func (s *Server) targets() promapi.Targets {
	if s.scraper == nil {
		return nil
	}
	return s.scraper
}
