// The shared parts of the benches: several runs, their median, and the machine's name.
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'

/** The results of one run by name. */
export type Numbers = Readonly<Record<string, number>>

const RUNS = Number(process.env['RUNS'] ?? 5)

/** Runs a bench several times (`RUNS`, 5 by default) and prints the median of each number, with the lowest and the highest. */
export async function measure(question: string, run: (path: string) => Promise<Numbers>): Promise<Numbers> {
  const all: Numbers[] = []
  for (let i = 0; i < RUNS; i++) {
    const folder = mkdtempSync(join(process.env['BENCH_DIR'] ?? tmpdir(), 'sluice-bench-'))
    try {
      all.push(await run(join(folder, 'bench.db')))
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }
  console.log(
    `\n${question}\n  node ${process.version}, ${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, ${RUNS} runs`,
  )
  const medians: Record<string, number> = {}
  for (const name of Object.keys(all[0] ?? {})) {
    const sorted = all.map((numbers) => numbers[name] ?? Number.NaN).sort((a, b) => a - b)
    medians[name] = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
    console.log(`  ${name.padEnd(34)} ${show(medians[name])}   (${show(sorted[0])} … ${show(sorted.at(-1))})`)
  }
  return medians
}

/** The value below which a fraction of all values lie. */
export function quantile(values: readonly number[], fraction: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? Number.NaN
}

/** Milliseconds by a clock fit for measuring. */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

function show(value: number | undefined): string {
  if (value === undefined) return '–'
  return value >= 1000 ? Math.round(value).toLocaleString('en') : value.toPrecision(3)
}
