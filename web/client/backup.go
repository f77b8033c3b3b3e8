package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Backup writes a copy of the server's data to w. If it returns an error, the copy is incomplete.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	resp, err := c.sendRequest(ctx, http.MethodGet, "/api/reckon/v1/backup", nil, "application/zstd")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return fmt.Errorf("read the answer of %s: %w", c.Server(), err)
		}
		return c.responseError(resp, body)
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("the backup of %s was interrupted: %w; see its log", c.Server(), err)
	}
	return nil
}
