// Requests to the server: one function, one hook, and the errors as people need them.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Range } from "./span";
import { beat, has } from "./state";
import type { PromSeries } from "./types";

export class Failure extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint = "",
  ) {
    super(message);
  }
}

/** Queries of a page, its nodes and sums of usage take what another viewer was answered in the last 15 s. */
const shared = { "Cache-Control": "max-age=15" },
  sharing = /^\/api\/reckon\/v1\/(nodes|usage)\b/;

export async function ask<T>(
  path: string,
  signal?: AbortSignal,
  method = "GET",
  headers: Record<string, string> = {},
  body?: URLSearchParams,
): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      signal,
      body,
      headers: { Accept: "application/json", ...(sharing.test(path) ? shared : {}), ...headers },
    });
  } catch (err) {
    if (signal?.aborted) throw err;
    throw new Failure(
      0,
      "The server does not answer.",
      "Is reckon still running, and the network up? The page asks again by itself.",
    );
  }
  const text = await answer.text();
  let fields: Record<string, unknown> = {};
  try {
    fields = JSON.parse(text);
  } catch {
    if (answer.ok)
      throw new Failure(
        answer.status,
        `${path.split("?")[0]}: the answer is not JSON.`,
        "Does a proxy stand in between?",
      );
  }
  if (!answer.ok) {
    if (answer.status === 401 && has("auth")) {
      location.assign(
        "/auth/login?" + new URLSearchParams({ next: location.pathname + location.search }),
      );
    }
    throw new Failure(
      answer.status,
      String(fields.error ?? `status ${answer.status}`),
      String(fields.hint ?? ""),
    );
  }
  return fields as T;
}

export interface Asked<T> {
  data?: T;
  error?: Failure;
  at?: number;
  busy: boolean;
  again: () => void;
}

/**
 * Asks for path, again whenever it changes and, if fresh, with each beat. Keeps the last good answer of the same path;
 * of another path too, until the new answer is there, as long as `same` is the same: a window that moves on shows no gap.
 */
export function useAsk<T>(
  path: string | null,
  fresh = false,
  load: (p: string, s: AbortSignal) => Promise<T> = (p, s) => ask<T>(p, s),
  same?: string,
): Asked<T> {
  const [state, setState] = useState<{
    path: string | null;
    same?: string;
    data?: T;
    error?: Failure;
    at?: number;
  }>({ path: null });
  const [busy, setBusy] = useState(false);
  const [turn, setTurn] = useState(0);
  const fn = useRef(load);
  fn.current = load;
  const b = fresh ? beat.value : 0;
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    setBusy(true);
    fn.current(path, stop.signal).then(
      (data) => {
        if (!stop.signal.aborted) {
          setState({ path, same, data, at: Date.now() });
          setBusy(false);
        }
      },
      (error) => {
        if (stop.signal.aborted) return;
        const e = error instanceof Failure ? error : new Failure(0, String(error));
        setState((s) =>
          s.path === path || (same !== undefined && s.same === same)
            ? { ...s, error: e }
            : { path, same, error: e },
        );
        setBusy(false);
      },
    );
    return () => stop.abort();
  }, [path, b, turn]);
  const mine = state.path === path || (same !== undefined && state.same === same && path !== null);
  return {
    data: mine ? state.data : undefined,
    error: mine ? state.error : undefined,
    at: state.at,
    busy,
    again: () => setTurn(turn + 1),
  };
}

/** useAsk of a path with since= and until= of a range: the answer stays while the window moves on with the clock. */
export function useAskOver<T>(path: string | null, r: Range, fresh = false): Asked<T> {
  return useAsk<T>(
    path,
    fresh,
    undefined,
    path === null
      ? undefined
      : `${path.replace(/(since|until)=[^&]*/g, "")} ${r.length} ${r.fixed ? r.from : ""}`,
  );
}

interface PromAnswer {
  status: string;
  error?: string;
  warnings?: string[];
  data: { resultType: string; result: PromSeries[] };
}
export async function promInstant(
  expr: string,
  signal?: AbortSignal,
  at?: number,
): Promise<PromSeries[]> {
  const q = new URLSearchParams({ query: expr });
  if (at) q.set("time", String(at));
  return (await ask<PromAnswer>("/api/v1/query?" + q, signal, "GET", at ? shared : {})).data.result;
}
export async function promRange(
  expr: string,
  from: number,
  to: number,
  step: number,
  signal?: AbortSignal,
): Promise<PromSeries[]> {
  const q = new URLSearchParams({
    query: expr,
    start: String(from),
    end: String(to),
    step: String(step),
  });
  return (await ask<PromAnswer>("/api/v1/query_range?" + q, signal, "GET", shared)).data.result;
}
