// Measures Sluice, other engines and bare loops in the same rounds, on private servers, and prints the ratios.
//
//   npx node bench/compare/run.ts [row …] [--runs 3] [--scale 1] [--out bench/compare/out/results.jsonl]
//
// Without a row: all of rows.ts. BEFORE=<folder of another build's package> is measured too where a row asks for it.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { appendFileSync, mkdirSync } from 'node:fs'
import { loadavg } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Kept, ROWS } from './rows.ts'
import { startServers } from './servers.ts'
import { tableOf } from './summary.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    runs: { type: 'string', default: '3' },
    scale: { type: 'string', default: '1' },
    out: { type: 'string', default: join(import.meta.dirname, 'out/results.jsonl') },
  },
})
const names = positionals.length === 0 ? Object.keys(ROWS) : positionals
for (const name of names)
  if (!ROWS[name]) throw new Error(`there is no row ${name}; there are ${Object.keys(ROWS).join(', ')}`)
const scale = Number(values.scale)
const build = execFileSync('git', ['describe', '--always', '--dirty'], { encoding: 'utf8' }).trim()
mkdirSync(dirname(values.out), { recursive: true })

const kept: Kept[] = []
const servers = await startServers()
process.once('SIGINT', () => void servers.end().finally(() => process.exit(130)))
try {
  for (const row of names)
    for (let round = 1; round <= Number(values.runs); round++) {
      const measurements = Object.entries(ROWS[row]?.measurements ?? {})
      // In turn, and back the next time: a minute in which the machine is busy hits all.
      for (const [measurement, measure] of round % 2 === 1 ? measurements : measurements.reverse()) {
        const before = core()
        const numbers = await measure({ servers, scale }).catch((error: unknown) => {
          console.error(`${row} ${measurement}: ${String(error)}`)
          return {}
        })
        const found: Kept = {
          at: new Date().toISOString(),
          build: scale === 1 ? build : `${build} at scale ${scale}`,
          row,
          round,
          measurement,
          numbers,
          core: [before, core()],
          load: loadavg()[0] ?? 0,
        }
        kept.push(found)
        appendFileSync(values.out, `${JSON.stringify(found)}\n`)
        console.error(`${row} ${round}/${values.runs} ${measurement}`, numbers, `core ${found.core.join(' ')}`)
      }
    }
} finally {
  await servers.end()
}
console.log(tableOf(kept))

/** Thousands of hashes of 1 KiB per second, over 60 ms: how much of a core is free now. */
function core(): number {
  const block = Buffer.alloc(1024)
  const startMs = performance.now()
  let hashes = 0
  while (performance.now() - startMs < 60) {
    for (let n = 0; n < 20; n++) createHash('sha1').update(block).digest()
    hashes += 20
  }
  return Math.round(hashes / (performance.now() - startMs))
}
