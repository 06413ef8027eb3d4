// How each verdict looks: a colour, a shape and a word; never the colour alone.

/** How to look at another cluster, for screens that are empty. @type {[string, string]} */
export const SNAPSHOT = ["or take a snapshot of a cluster that runs, and look at that", "weir snapshot && weir ui --cluster snapshot.json.gz"];

/** @type {Record<string, {shape: string, word: string, long: string}>} */
export const VERDICTS = {
  fits: { shape: "✓", word: "fits", long: "fits on all of these nodes" },
  some: { shape: "◐", word: "some fit", long: "fits on some of these nodes" },
  change: { shape: "△", word: "small change", long: "would fit after a small change" },
  taint: { shape: "⊘", word: "taint", long: "refused by a taint" },
  affinity: { shape: "◇", word: "affinity", long: "refused by affinity, labels or spread" },
  room: { shape: "▭", word: "room", long: "too little room" },
  device: { shape: "⬡", word: "device", long: "no device" },
  volume: { shape: "▤", word: "volume", long: "a volume cannot be used" },
  other: { shape: "✕", word: "refused", long: "refused" },
  unknown: { shape: "?", word: "cannot say", long: "cannot say" },
};
