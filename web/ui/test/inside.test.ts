import { describe, expect, it, vi } from "vitest";
vi.stubGlobal("document", { body: { dataset: {} }, addEventListener: () => undefined, documentElement: { dataset: {} } });
vi.stubGlobal("location", { href: "http://x/" }); vi.stubGlobal("addEventListener", () => undefined);
vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => undefined })); vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => undefined });
const { gpuWords } = await import("../src/lib/inside");

describe("kind of GPU use", () => {
  it.each([
    [{}, ""], [{ sm: 0.9 }, ""],
    [{ tensor: 0.4, fp64: 0, fp32: 0.1, dram: 0.3 }, "Most arithmetic ran on the tensor cores (40 % of the time); memory traffic was at 30 % of its highest."],
    [{ fp64: 0.3, dram: 0.5 }, "Most arithmetic ran on the FP64 units (30 % of the time); memory traffic was at 50 % of its highest: memory limits it more than arithmetic."],
    [{ fp64: 0.3, dram: 0.499 }, "Most arithmetic ran on the FP64 units (30 % of the time); memory traffic was at 50 % of its highest."],
    [{ fp32: 0.019 }, "Its arithmetic units were hardly busy."], [{ fp32: 0.02 }, "Most arithmetic ran on the FP32 units (2 % of the time)."],
    [{ dram: 0.1 }, "Memory traffic was at 10 % of its highest."],
  ])("%j", (mean, want) => expect(gpuWords(mean as Record<string, number>)).toBe(want));
});

const { absent } = await import("../src/pages/about");
it.each([
  ["not a Cray", true], ["no battery or supply", true], ["the kernel shows no thermal zones", true], ["no targets with figures of their own are configured", true], ["pods have no names: no kubelet is configured", true],
  ["some traffic is not counted", false], ["no permission to read /dev/cpu", false], ["not allowed: run as root", false], ["", false],
])("%s: nothing to mend is %s", (reason, want) => expect(absent(reason)).toBe(want));
