import { expect, test } from "vitest";
import { logged } from "../src/lib/names";

test("only pods of a namespace and units have a log to be asked for", () => {
  for (const [id, owner, want] of [
    ["deployment/shop/cart", "shop", true],
    ["pod/shop/a", "shop", true],
    ["unit/nginx.service", "root", true],
    ["slurm/4711", "alice", false],
    ["pod/0b7c2a55", "kubernetes", false],
    ["group/n1/812", "alice", false],
    ["deployment/shop/cart", undefined, false],
  ] as const) {
    expect(logged(id, owner), id).toBe(want);
  }
});
