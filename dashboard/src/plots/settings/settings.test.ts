import assert from "node:assert/strict";
import { test } from "node:test";
import { parseRoute, routeHref } from "../../router.ts";
import { moved, parseSettings, settingsQuery, toggleLogarithmic, withLimits, type PlotSettings } from "./settings.ts";

const settingsOf = (query: string) => parseSettings(new URLSearchParams(query));
const addressOf = (settings: PlotSettings) => routeHref(["jobs", "1"], settingsQuery(settings));

test("settings come back from their address, and usual ones are left out of it", () => {
  const settings: PlotSettings = {
    x: "time",
    smoothing: 0.6,
    columns: 3,
    logarithmic: ["loss", "a:b/c&d"],
    limits: new Map([["loss", [0, null]], ["a:b/c&d", [-1.5, 2e-7]]]),
    panels: ["grad_norm", "loss/generator"],
  };
  assert.deepEqual(parseSettings(parseRoute(addressOf(settings)).query), settings);
  assert.equal(addressOf(settingsOf("")), "#/jobs/1");
});

test("what an address says wrongly is ignored", () => {
  assert.deepEqual(settingsOf("x=miles&smooth=7&columns=x&y=2:1:loss&y=loss&y=::loss"), { ...settingsOf(""), smoothing: 0.99 });
});

test("limits, logarithmic axes and the order of panels change one panel", () => {
  const settings = { ...settingsOf("y=0::loss&log=loss"), panels: ["a", "b", "c"] };
  assert.deepEqual([...withLimits(settings, "b", [null, 3]).limits!], [["loss", [0, null]], ["b", [null, 3]]]);
  assert.deepEqual([...withLimits(settings, "loss", [null, null]).limits!], []);
  assert.deepEqual(toggleLogarithmic(settings, "loss"), { logarithmic: [] });
  assert.deepEqual(toggleLogarithmic(settings, "b"), { logarithmic: ["loss", "b"] });
  assert.deepEqual([moved(settings.panels, "b", 1), moved(settings.panels, "a", -1)], [["a", "c", "b"], ["a", "b", "c"]]);
});
