package api

import (
	"context"
	"io"
	"net/http"

	"reckon/access"
)

// Backup writes a copy of the server's data. It calls begin once, after everything was prepared, and writes to the
// result. An error before that becomes the response to the request. A later error aborts the response.
type Backup interface {
	Backup(ctx context.Context, begin func() io.Writer) error
}

func (s *server) backupRoutes() []route {
	return []route{{
		path: "/api/reckon/v1/backup", summary: "Back everything up",
		doc: "A consistent copy of the server's data, made while it runs: a zstd-compressed tar archive, for `reckon restore`. Its " +
			"last file is SHA256SUMS; without it the archive is incomplete. It holds the hashes of passwords and tokens.",
		media: "application/zstd", stream: true, fails: []int{401, 403, 404, 503}, role: access.Admin, handle: s.serveBackup,
	}}
}

func (s *server) serveBackup(w http.ResponseWriter, r *http.Request, _ *query) error {
	if s.Backup == nil {
		return newError(http.StatusNotFound, "", "this server keeps nothing that it could back up")
	}
	begun := false
	err := s.Backup.Backup(r.Context(), func() io.Writer {
		begun = true
		w.Header().Set("Content-Type", "application/zstd")
		w.Header().Set("Content-Disposition", `attachment; filename="reckon.tar.zst"`)
		return w
	})
	if err != nil && begun {
		s.Logger.ErrorContext(r.Context(), "backup broke off", "error", err)
		panic(http.ErrAbortHandler) // so that it is not mistaken for complete
	}
	return err
}
