import { expect, it, vi } from "vitest";
vi.stubGlobal("document", { body: { dataset: {} }, addEventListener: () => undefined, documentElement: { dataset: {} } });
vi.stubGlobal("location", { href: "http://x/" }); vi.stubGlobal("addEventListener", () => undefined);
vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => undefined })); vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => undefined });
const { absent } = await import("../src/pages/about");
it.each([
  ["not a Cray", true], ["no battery or supply", true], ["the kernel shows no thermal zones", true], ["no targets with figures of their own are configured", true], ["pods have no names: no kubelet is configured", true],
  ["some traffic is not counted", false], ["no permission to read /dev/cpu", false], ["not allowed: run as root", false], ["", false],
])("%s: nothing to mend is %s", (reason, want) => expect(absent(reason)).toBe(want));
