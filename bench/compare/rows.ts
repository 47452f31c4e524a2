// Every question, with its measurements and what is wanted of their ratios within one round.
import { bareSqliteDrain, bareSqliteInserts, barePostgresDrain, barePostgresInserts } from './bare.ts'
import { backlog } from './backlog.ts'
import { entering, firstStep, steps } from './flows.ts'
import { overHttp } from './http.ts'
import { chain, drain, enqueue, type Measure, neighbour, type Numbers, pickUp, strictKey } from './measurements.ts'

/** The numbers of one round: by measurement, then by name. */
export type Found = (measurement: string, name: string) => number

/** A value and its wanted bound. */
export interface Bound {
  readonly what: string
  readonly of: (found: Found) => number
  readonly wanted: readonly ['≥' | '≤', number]
}

/** One question. */
export interface Row {
  readonly question: string
  readonly measurements: Readonly<Record<string, Measure>>
  /** The numbers of each measurement that its table shows. */
  readonly shows: readonly string[]
  readonly bounds: readonly Bound[]
}

const RATE = ['jobs/s']
const REMEMBERED = [10, 100, 1000]
const BEST = { profile: 'best', jobs: 100_000 } as const
/** The package of another build, which is measured in the same rounds. */
const BEFORE = process.env['BEFORE']

function atLeast(what: string, wanted: number, of: (found: Found) => number): Bound {
  return { what, of, wanted: ['≥', wanted] }
}

function atMost(what: string, wanted: number, of: (found: Found) => number): Bound {
  return { what, of, wanted: ['≤', wanted] }
}

/** The ratio of one measurement to the greatest of others. */
function to(one: string, others: readonly string[], name = 'jobs/s', of = name): (found: Found) => number {
  return (found) => found(one, name) / Math.max(...others.map((other) => found(other, of)))
}

function its(one: string, name: string): (found: Found) => number {
  return (found) => found(one, name)
}

/** Each key of a limit that never bites. */
function keyed(store: 'sqlite' | 'pg', least: readonly [number, number]): Row {
  const engine = `sluice-${store}`
  const jobs = store === 'sqlite' ? 60_000 : 20_000
  return {
    question: `drain beside limits that never bite, ${store}, c=100`,
    shows: RATE,
    measurements: {
      unlimited: drain(engine, { jobs }),
      '100 keys': drain(engine, { jobs, keys: 100 }),
      '10,000 keys': drain(engine, { jobs, keys: 10_000 }),
      ...(BEFORE !== undefined && { 'before, 100 keys': drain(engine, { jobs, keys: 100, build: BEFORE }) }),
    },
    bounds: [
      atLeast('100 keys to unlimited', least[0], to('100 keys', ['unlimited'])),
      atLeast('10,000 keys to unlimited', least[1], to('10,000 keys', ['unlimited'])),
      ...(BEFORE !== undefined && store === 'pg'
        ? [atLeast('100 keys to the build before', 2.2, to('100 keys', ['before, 100 keys']))]
        : []),
    ],
  }
}

function strict(kind: 'strict' | 'every'): Row {
  const at = (engine: string, perSecond: number): Measure => strictKey(engine, { kind, perSecond })
  const measurements = {
    'SQLite 100/s': at('sluice-sqlite', 100),
    'SQLite 1,000/s': at('sluice-sqlite', 1000),
    'PostgreSQL 100/s': at('sluice-pg', 100),
    'PostgreSQL 1,000/s': at('sluice-pg', 1000),
  }
  return {
    question: kind === 'strict' ? 'one key, burst 1' : 'one key, `every`',
    shows: ['used', 'worst second'],
    measurements: { ...measurements, ...(kind === 'strict' && { 'DBOS 100/s': at('dbos', 100) }) },
    bounds: Object.keys(measurements).map((name) => atLeast(`${name}: used`, 0.99, its(name, 'used'))),
  }
}

function pickUps(where: 'same' | 'other', sqlite: readonly [number, number], pg: readonly [number, number]): Row {
  return {
    question: `pick-up, ${where} process`,
    shows: ['p50 ms', 'p99 ms'],
    measurements: {
      SQLite: pickUp('sluice-sqlite', where),
      PostgreSQL: pickUp('sluice-pg', where),
      BullMQ: pickUp('bullmq', where),
      graphile: pickUp('graphile', where),
    },
    bounds: [
      atMost('SQLite p50 ms', sqlite[0], its('SQLite', 'p50 ms')),
      atMost('SQLite p99 ms', sqlite[1], its('SQLite', 'p99 ms')),
      atMost('PostgreSQL p50 ms', pg[0], its('PostgreSQL', 'p50 ms')),
      atMost('PostgreSQL p99 ms', pg[1], its('PostgreSQL', 'p99 ms')),
    ],
  }
}

function waiting(store: 'sqlite' | 'postgres', bounds: readonly Bound[]): Row {
  return {
    question: `1,000,000 jobs wait in 100,000 keys, ${store}`,
    shows: ['fresh p50 ms', 'fresh p99 ms', 'busy jobs/s', 'bytes a job', 'taken in s'],
    measurements: { empty: backlog(store, false), full: backlog(store, true) },
    bounds: [
      atMost('fresh key p50, full to empty', 1.3, to('full', ['empty'], 'fresh p50 ms')),
      atLeast('busy drain, full to empty', 0.77, to('full', ['empty'], 'busy jobs/s')),
      ...bounds,
    ],
  }
}

/** Workflows of so many steps by every engine that has them. */
function stepsOf(counts: readonly number[]): Row['measurements'] {
  const engines = [
    ['SQLite', 'sluice-sqlite'],
    ['PostgreSQL', 'sluice-pg'],
    ['DBOS', 'dbos'],
  ] as const
  return Object.fromEntries(
    counts.flatMap((each) => engines.map(([name, engine]) => [`${name}, ${each}`, steps(engine, each)])),
  )
}

/** Every question by its name on the command line. */
export const ROWS: Readonly<Record<string, Row>> = {
  'drain-sqlite': {
    question: 'drain, SQLite',
    shows: RATE,
    measurements: {
      'c=100': drain('sluice-sqlite', { jobs: 100_000 }),
      'c=1,000': drain('sluice-sqlite', { jobs: 100_000, concurrency: 1000 }),
      'BullMQ c=100': drain('bullmq', { jobs: 30_000 }),
      'bare 100': bareSqliteDrain(100),
      'bare 1,000': bareSqliteDrain(1000),
    },
    bounds: [
      atLeast('c=100 to BullMQ', 2.5, to('c=100', ['BullMQ c=100'])),
      atLeast('c=1,000 to BullMQ', 2.5, to('c=1,000', ['BullMQ c=100'])),
      atLeast('c=100 to the bare loop', 0.35, to('c=100', ['bare 100'])),
      atLeast('c=1,000 to the bare loop', 0.35, to('c=1,000', ['bare 1,000'])),
    ],
  },
  'drain-pg': {
    question: 'drain, PostgreSQL, c=100',
    shows: RATE,
    measurements: {
      Sluice: drain('sluice-pg', { jobs: 40_000 }),
      BullMQ: drain('bullmq', { jobs: 30_000 }),
      'pg-boss': drain('pg-boss', { jobs: 15_000 }),
      graphile: drain('graphile', { jobs: 5000 }),
      DBOS: drain('dbos'),
      'bare 100': barePostgresDrain(100),
    },
    bounds: [
      atLeast('to BullMQ', 1.5, to('Sluice', ['BullMQ'])),
      atLeast('to the bare loop', 0.75, to('Sluice', ['bare 100'])),
    ],
  },
  'drain-best': {
    question: 'drain, PostgreSQL, each at its best',
    shows: RATE,
    measurements: Object.fromEntries(
      [1, 2].flatMap((processes) =>
        ['sluice-pg', 'pg-boss', 'graphile'].map((engine) => [
          `${engine} ×${processes}`,
          drain(engine, { ...BEST, processes }),
        ]),
      ),
    ),
    bounds: [1, 2].map((n) =>
      atLeast(
        `${n} process${n > 1 ? 'es' : ''}, to the best`,
        1.3,
        to(`sluice-pg ×${n}`, [`pg-boss ×${n}`, `graphile ×${n}`]),
      ),
    ),
  },
  'keys-sqlite': keyed('sqlite', [0.75, 0.6]),
  'keys-pg': keyed('pg', [0.5, 0.45]),
  share: {
    question: 'drain with 100 keys that take turns of 5, PostgreSQL, c=100',
    shows: RATE,
    measurements: {
      'share 1': drain('sluice-pg', { jobs: 20_000, keys: 100 }),
      'share 5': drain('sluice-pg', { jobs: 20_000, keys: 100, share: 5 }),
    },
    bounds: [atLeast('share 5 to share 1', 1, to('share 5', ['share 1']))],
  },
  strict: strict('strict'),
  every: strict('every'),
  sliding: {
    question: 'one key, a sliding window of 100 in 1 s',
    shows: ['used', 'worst second'],
    measurements: {
      SQLite: strictKey('sluice-sqlite', { kind: 'sliding', perSecond: 100 }),
      PostgreSQL: strictKey('sluice-pg', { kind: 'sliding', perSecond: 100 }),
      DBOS: strictKey('dbos', { kind: 'sliding', perSecond: 100 }),
    },
    // The default guard makes the window 1.02 s.
    bounds: ['SQLite', 'PostgreSQL'].flatMap((name) => [
      atMost(`${name}: worst second`, 100, its(name, 'worst second')),
      atLeast(`${name}: used of the window with its guard`, 0.98, (found) => found(name, 'used') * 1.02),
    ]),
  },
  neighbour: {
    question: 'B beside the backlog of A',
    shows: ['p50 ms', 'p99 ms'],
    measurements: {
      SQLite: neighbour('sluice-sqlite'),
      PostgreSQL: neighbour('sluice-pg'),
      graphile: neighbour('graphile'),
    },
    bounds: [
      atMost('SQLite p50 ms', 2, its('SQLite', 'p50 ms')),
      atMost('SQLite p99 ms', 10, its('SQLite', 'p99 ms')),
      atMost('PostgreSQL p50 ms', 4, its('PostgreSQL', 'p50 ms')),
      atMost('PostgreSQL p99 ms', 15, its('PostgreSQL', 'p99 ms')),
    ],
  },
  'pickup-same': pickUps('same', [0.7, 3], [1.4, 5]),
  'pickup-other': pickUps('other', [1.5, 5], [1.8, 5]),
  'enqueue-sqlite': {
    question: 'enqueue, SQLite',
    shows: ['one by one/s', 'in flight/s', 'bulk/s', '1 a commit/s', '100 a commit/s', '1000 a commit/s'],
    measurements: { Sluice: enqueue('sluice-sqlite'), BullMQ: enqueue('bullmq'), bare: bareSqliteInserts },
    bounds: [
      atLeast('one by one to the bare insert', 0.6, to('Sluice', ['bare'], 'one by one/s', '1 a commit/s')),
      atLeast('100 in flight to BullMQ', 3, to('Sluice', ['BullMQ'], 'in flight/s')),
      atLeast('bulk to BullMQ', 3, to('Sluice', ['BullMQ'], 'bulk/s')),
    ],
  },
  'enqueue-pg': {
    question: 'enqueue, PostgreSQL',
    shows: ['one by one/s', 'in flight/s', 'bulk/s', '1 a commit/s', '100 a commit/s', '1000 a commit/s'],
    measurements: {
      Sluice: enqueue('sluice-pg'),
      graphile: enqueue('graphile'),
      'pg-boss': enqueue('pg-boss'),
      bare: barePostgresInserts,
    },
    bounds: [
      atLeast('one by one to graphile', 1.2, to('Sluice', ['graphile'], 'one by one/s')),
      atLeast('bulk to graphile', 1.5, to('Sluice', ['graphile'], 'bulk/s')),
    ],
  },
  chain: {
    question: 'chain until `result()`',
    shows: RATE,
    measurements: {
      SQLite: chain('sluice-sqlite'),
      PostgreSQL: chain('sluice-pg'),
      BullMQ: chain('bullmq'),
      DBOS: chain('dbos'),
    },
    bounds: [
      atLeast('SQLite jobs/s', 2000, its('SQLite', 'jobs/s')),
      atLeast('PostgreSQL jobs/s', 450, its('PostgreSQL', 'jobs/s')),
    ],
  },
  steps: {
    question: 'workflows of steps, 100 in flight',
    shows: ['steps/s'],
    measurements: stepsOf([3, 10]),
    bounds: [3, 10].map((each) =>
      atLeast(`${each} steps, PostgreSQL to DBOS`, 1, to(`PostgreSQL, ${each}`, [`DBOS, ${each}`], 'steps/s')),
    ),
  },
  'first-step': {
    question: 'from the start of a workflow to its first step',
    shows: ['p50 ms', 'p99 ms'],
    measurements: {
      SQLite: firstStep('sluice-sqlite'),
      PostgreSQL: firstStep('sluice-pg'),
      DBOS: firstStep('dbos'),
    },
    bounds: [
      atMost('PostgreSQL to DBOS, p50', 1, to('PostgreSQL', ['DBOS'], 'p50 ms')),
      atMost('PostgreSQL to DBOS, p99', 1, to('PostgreSQL', ['DBOS'], 'p99 ms')),
    ],
  },
  entering: {
    question: 'entering a workflow that remembers its steps',
    shows: REMEMBERED.map((count) => `${count} remembered, ms`),
    measurements: {
      SQLite: entering('sluice-sqlite', REMEMBERED),
      PostgreSQL: entering('sluice-pg', REMEMBERED),
      DBOS: entering('dbos', REMEMBERED),
    },
    bounds: REMEMBERED.map((count) =>
      atMost(`${count}, PostgreSQL to DBOS`, 1, to('PostgreSQL', ['DBOS'], `${count} remembered, ms`)),
    ),
  },
  http: {
    question: 'HTTP at 50 connections',
    shows: ['pushes/s', 'worked/s'],
    measurements: { SQLite: overHttp('sqlite'), PostgreSQL: overHttp('postgres'), floor: overHttp('floor') },
    bounds: [
      atLeast('SQLite, pushes to the floor', 0.45, to('SQLite', ['floor'], 'pushes/s')),
      atLeast('SQLite, fetch and ack to the floor', 0.4, to('SQLite', ['floor'], 'worked/s')),
      atLeast('PostgreSQL, fetch and ack/s', 3500, its('PostgreSQL', 'worked/s')),
    ],
  },
  'backlog-sqlite': waiting('sqlite', []),
  'backlog-pg': waiting('postgres', [
    atMost('bytes a job', 450, its('full', 'bytes a job')),
    atMost('taken in, s', 20, its('full', 'taken in s')),
  ]),
  stripes: {
    question: 'drain with 100 keys over stripes, PostgreSQL, 2 processes',
    shows: RATE,
    measurements: Object.fromEntries(
      [1, 2, 4].map((stripes) => [
        `${stripes}`,
        drain('sluice-pg', { jobs: 20_000, keys: 100, processes: 2, stripes }),
      ]),
    ),
    bounds: [],
  },
}

/** One measurement of one round, as it is kept. */
export interface Kept {
  readonly at: string
  readonly build: string
  readonly row: string
  readonly round: number
  readonly measurement: string
  readonly numbers: Numbers
  /** Thousands of hashes per second of a free core before and after: lower on a busy machine. */
  readonly core: readonly [number, number]
  readonly load: number
}
