// Holds the house together: every rule below is one function over parsed sources. It is run on src/, where it must find
// nothing, and on small bad snippets, where it must find exactly what is wrong: a rule that cannot fail guards nothing.
import { readdirSync, readFileSync } from 'node:fs'
import { posix, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'oxc-parser'
import { describe, expect, it } from 'vitest'

/** A syntax node as ESTree has it; its other fields are read through `child` and `children`. */
interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [field: string]: unknown
}

interface Comment {
  readonly type: string
  readonly value: string
  readonly start: number
  readonly end: number
}

/** A parsed file; `path` is relative to src/, with forward slashes. */
interface Source {
  readonly path: string
  readonly text: string
  readonly body: readonly Node[]
  /** Every node of the file, parents before children. */
  readonly nodes: readonly Node[]
  readonly comments: readonly Comment[]
}

type Rule = (source: Source) => string[]

// ------------------------------------------------------------------------------------------------ reading sources

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as Node).type === 'string'
}

function child(node: Node | undefined, field: string): Node | undefined {
  const value = node?.[field]
  return isNode(value) ? value : undefined
}

function children(node: Node, field: string): Node[] {
  const value = node[field]
  return Array.isArray(value) ? value.filter(isNode) : []
}

function text(node: Node | undefined, field: string): string | undefined {
  const value = node?.[field]
  return typeof value === 'string' ? value : undefined
}

function everyNode(root: Node): Node[] {
  const found: Node[] = []
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) for (const item of value) visit(item)
    if (!isNode(value)) return
    found.push(value)
    for (const inner of Object.values(value)) if (typeof inner === 'object') visit(inner)
  }
  visit(root)
  return found
}

function parse(path: string, content: string): Source {
  const { program, comments, errors } = parseSync(path, content)
  if (errors.length > 0) throw new Error(`${path} does not parse: ${errors[0]?.message}`)
  const root: unknown = program
  if (!isNode(root)) throw new Error(`${path}: the parser returned no program`)
  return { path, text: content, body: children(root, 'body'), nodes: everyNode(root), comments }
}

function at(source: Source, node: { start: number }, problem: string): string {
  return `${source.path}:${source.text.slice(0, node.start).split('\n').length} ${problem}`
}

/** All that a file imports: static, re-export, dynamic, `import('…')` as a type, `require`. */
function imports(source: Source): { node: Node; from: string }[] {
  return source.nodes.flatMap((node) => {
    const isRequire = node.type === 'CallExpression' && text(child(node, 'callee'), 'name') === 'require'
    const from = isRequire ? children(node, 'arguments')[0] : child(node, 'source')
    const target = text(from, 'value')
    return target === undefined ? [] : [{ node, from: target }]
  })
}

/** The path in src/ that a relative import names, or undefined for a package. */
function resolve(source: Source, from: string): string | undefined {
  return from.startsWith('.') ? posix.join(posix.dirname(source.path), from) : undefined
}

// ---------------------------------------------------------------------------------------------------- floors

const FLOORS = new Map(
  Object.entries({
    base: 0,
    policy: 1,
    jobs: 2,
    presets: 3,
    database: 3,
    limiter: 3,
    store: 4,
    bridge: 5,
    engine: 5,
    flows: 6,
    remote: 6,
    telemetry: 6,
    http: 7,
    dashboard: 8,
    cli: 9,
  }),
)
const TESTING = 'testing'
const TESTING_SEES = 5
const DOORS = 'exports'
const BACKENDS = ['sqlite', 'postgres', 'redis', 'nats', 'memory']
/** The one file of a floor that chooses a backend by URL, and so may name them all. */
const CHOOSERS = ['store/open.ts', 'limiter/open.ts']
/** Packages that only their backend may import; the whole database floor may, since it holds the connections. */
const DRIVERS = new Map(
  Object.entries({ 'node:sqlite': 'sqlite', pg: 'postgres', redis: 'redis', '@nats-io': 'nats', iovalkey: 'redis' }),
)

/** Optional peers that only one folder may import, which only the door of the same name lets in. */
const BEHIND_A_DOOR = new Map(Object.entries({ '@opentelemetry/api': 'telemetry' }))
const DOOR_OF = new Map(Object.entries({ telemetry: 'exports/opentelemetry.ts' }))

function folderOf(path: string): string {
  return path.includes('/') ? (path.split('/')[0] ?? '') : ''
}

/** The backend that a file belongs to: store/sqlite/claim.ts and database/sqlite-file.ts are sqlite's. */
function backendOf(path: string): string | undefined {
  const [folder = '', second = ''] = path.split('/')
  if (!['database', 'store', 'limiter'].includes(folder)) return undefined
  return BACKENDS.find((backend) => new RegExp(`^${backend}([-.]|$)`).test(second))
}

const everyFileIsOnAFloor: Rule = (source) => {
  const folder = folderOf(source.path)
  const known = FLOORS.has(folder) || folder === TESTING || folder === DOORS
  return known ? [] : [`${source.path} is on no floor: its first folder must be one that FLOORS knows`]
}

function mayImport(importer: string, imported: string): boolean {
  if (importer === imported || importer === DOORS) return true
  const floor = FLOORS.get(imported)
  if (floor === undefined) return false
  if (importer === TESTING) return floor <= TESTING_SEES
  return floor < (FLOORS.get(importer) ?? -1)
}

const importsGoDown: Rule = (source) =>
  imports(source).flatMap(({ node, from }) => {
    const target = resolve(source, from)
    if (target === undefined) return []
    if (target.startsWith('../')) {
      // The command line reads its version there; code outside src/ is not part of the package.
      return target === '../package.json' ? [] : [at(source, node, `imports ${from}, which is outside src/`)]
    }
    // The file that chooses a backend by its address loads the stores' from above, with the first use.
    const isLoaded = node.type === 'ImportExpression' && CHOOSERS.includes(source.path)
    const allowed = isLoaded || mayImport(folderOf(source.path), folderOf(target))
    return allowed ? [] : [at(source, node, `imports ${target}, which is not below ${folderOf(source.path)}`)]
  })

/** The wings of a floor, lowest first: a wing imports those before it. A file beside the wings stands above all of them. */
const WINGS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  policy: [['rules'], ['limits'], ['admission'], ['forecast']],
  store: [['contract'], ['shared', 'limiter'], ['sqlite', 'postgres']],
  limiter: [['contract'], ['ledger'], ['memory', 'redis', 'nats', 'values'], ['client']],
  engine: [['define'], ['events'], ['run'], ['api']],
}
/** The only files that may stand beside their floor's wings. */
const BESIDE_WINGS = [
  'store/open.ts',
  'store/open-limiter.ts',
  'limiter/open.ts',
  'limiter/create.ts',
  'engine/engine.ts',
  'engine/internals.ts',
]

function wingOf(path: string): number {
  const [floor = '', wing = ''] = path.split('/')
  const at = WINGS[floor]?.findIndex((wings) => wings.includes(wing)) ?? -1
  return at === -1 ? Infinity : at
}

const importsGoDownTheWings: Rule = (source) => {
  const floor = folderOf(source.path)
  if (WINGS[floor] === undefined) return []
  const own = wingOf(source.path)
  if (own === Infinity && !BESIDE_WINGS.includes(source.path)) return [`${source.path} is in no wing of ${floor}/`]
  return imports(source).flatMap(({ node, from }) => {
    const target = resolve(source, from)
    if (target === undefined || folderOf(target) !== floor || wingOf(target) <= own) return []
    return [at(source, node, `imports ${target}, from a wing above its own`)]
  })
}

/** Backends never meet, and no other file names one: but for the doors and the one file that chooses. */
const backendsStayApart: Rule = (source) => {
  const own = backendOf(source.path)
  if (folderOf(source.path) === DOORS || CHOOSERS.includes(source.path)) return []
  return imports(source).flatMap(({ node, from }) => {
    const target = resolve(source, from)
    const driver = [...DRIVERS.keys()].find((name) => from === name || from.startsWith(`${name}/`))
    if (driver !== undefined && folderOf(source.path) === 'database') return []
    const named = target === undefined ? DRIVERS.get(driver ?? '') : backendOf(target)
    return named === undefined || named === own ? [] : [at(source, node, `imports ${from}, which is ${named}'s alone`)]
  })
}

/** A user of Sluice without a peer need not install it: no other door may lead to its import. */
const optionalPeersStayBehindTheirDoor: Rule = (source) =>
  imports(source).flatMap(({ node, from }) => {
    const owner = BEHIND_A_DOOR.get(from)
    if (owner !== undefined && folderOf(source.path) !== owner)
      return [at(source, node, `imports ${from}, which is for ${owner}/ alone`)]
    const target = folderOf(resolve(source, from) ?? '')
    const door = DOOR_OF.get(target)
    if (door === undefined || source.path === door || folderOf(source.path) === target) return []
    return [at(source, node, `imports ${from}, which only ${door} may`)]
  })

/** policy/ and jobs/ are functions of their arguments: of the platform they may use hashing only. */
const pureFloorsStayPure: Rule = (source) => {
  if (!['policy', 'jobs'].includes(folderOf(source.path))) return []
  const reads = imports(source).filter(({ from }) => from.startsWith('node:') && from !== 'node:crypto')
  const globals = source.nodes.filter((node) => node.type === 'Identifier' && text(node, 'name') === 'process')
  return [
    ...reads.map(({ node, from }) => at(source, node, `imports ${from}: policy/ and jobs/ are pure`)),
    ...globals.map((node) => at(source, node, 'uses process: policy/ and jobs/ are pure')),
  ]
}

// ---------------------------------------------------------------------------------------------------- language

/** A simulation replays what comes through base/. `.oxlintrc.json` holds clocks and dice there; no rule of it sees a bare `Date`. */
const datesAreMadeFromNumbers: Rule = (source) => {
  if (folderOf(source.path) === 'base') return []
  const isDate = (node: Node): boolean =>
    text(child(node, 'callee'), 'name') === 'Date' &&
    (node.type === 'CallExpression' || (node.type === 'NewExpression' && children(node, 'arguments').length === 0))
  return source.nodes.filter(isDate).map((node) => at(source, node, 'reads the clock through Date'))
}

// ---------------------------------------------------------------------------------------------------- names and doors

/**
 * Names that a better word has replaced, as GLOSSARY.md has it. Each rename adds its old word once it is gone. A name in
 * lower case also holds for types; a capital, as in `Met`, holds for types alone.
 */
const REPLACED = new Map(
  Object.entries({
    Asked: 'a noun',
    booking: 'reservation',
    buryDead: 'expireWorkers',
    chores: 'maintenance',
    direct: 'setDirective',
    dismiss: 'deregisterWorker',
    enlist: 'registerWorker',
    freed: 'wakeup',
    Given: 'a noun',
    givenClock: 'testClock',
    hangsOnJob: 'dependsOnJob',
    jobFacts: 'jobDetails',
    judge: 'outcome',
    lineEvent: 'waitListEvent',
    Meant: 'a noun',
    Met: 'a noun',
    noLine: 'noWaitList',
    notRead: 'readMiss',
    openLine: 'unlimitedLane',
    outside: 'remote',
    Portion: 'ReadPlan',
    putOff: 'rescheduled',
    rateLimitFacts: 'rateLimitDetails',
    reachable: 'retryConnection',
    refusalFacts: 'refusalDetails',
    rings: 'wakeup',
    sieveShare: 'scanShare',
    sift: 'lateScan',
    sifter: 'lateScan',
    stir: 'wakeup',
    stranger: 'unlistedJob',
    takeAll: 'drainArrivals',
    tellFlow: 'reportFlow',
    Told: 'a noun',
    together: 'batched',
    verdict: 'outcome',
    wakeMixedLines: 'wakeSharedWaitLists',
    wider: 'widened',
  }),
)

/** One thing has one word: a name that was replaced does not come back. */
const replacedNamesStayAway: Rule = (source) =>
  source.nodes.flatMap((node) => {
    if (node.type !== 'Identifier' && node.type !== 'PrivateIdentifier') return []
    const name = text(node, 'name') ?? ''
    const better = REPLACED.get(name) ?? REPLACED.get(name.slice(0, 1).toLowerCase() + name.slice(1))
    return better === undefined ? [] : [at(source, node, `says ${name}; the word is ${better}`)]
  })

const namesSayWhatIsInside: Rule = (source) =>
  /(^|[/.-])(utils?|helpers?|managers?|commons?)([/.-]|$)/.test(source.path)
    ? [`${source.path}: a name that says nothing of what is inside`]
    : []

const noBarrels: Rule = (source) => {
  if (folderOf(source.path) === DOORS) return []
  if (posix.basename(source.path) === 'index.ts') return [`${source.path}: an index file outside exports/`]
  const stars = source.body.filter((node) => node.type === 'ExportAllDeclaration')
  const owns = source.body.some((node) =>
    node.type.startsWith('Export') ? child(node, 'declaration') !== undefined : node.type !== 'ImportDeclaration',
  )
  return [
    ...stars.map((node) => at(source, node, '`export *` outside exports/')),
    ...(owns ? [] : [`${source.path} declares nothing of its own: a barrel outside exports/`]),
  ]
}

/** Each key of package.json's `exports` has its file in src/exports/, each file its key, and each key the built paths. */
function doorsMatch(doors: Readonly<Record<string, unknown>>, files: readonly string[]): string[] {
  const names = Object.keys(doors).filter((key) => key !== './package.json')
  const fileOf = (key: string): string => (key === '.' ? 'index.ts' : `${key.slice(2)}.ts`)
  const wrongPath = names.filter((key) => {
    const built = `./dist/exports/${fileOf(key).replace(/\.ts$/, '')}`
    return JSON.stringify(doors[key]) !== JSON.stringify({ types: `${built}.d.ts`, default: `${built}.js` })
  })
  return [
    ...names.filter((key) => !files.includes(fileOf(key))).map((key) => `"${key}" has no src/exports/${fileOf(key)}`),
    ...files
      .filter((file) => !names.some((key) => fileOf(key) === file))
      .map((file) => `src/exports/${file} is not in "exports"`),
    ...wrongPath.map((key) => `"${key}" must be types, then default, in dist/exports/`),
  ]
}

// ---------------------------------------------------------------------------------------------------- documentation

function declaredNames(declaration: Node | undefined): string[] {
  if (declaration === undefined) return []
  if (declaration.type === 'VariableDeclaration') {
    return children(declaration, 'declarations').map((one) => text(child(one, 'id'), 'name') ?? '(a pattern)')
  }
  return [text(child(declaration, 'id'), 'name') ?? '(unnamed)']
}

function isDocumented(source: Source, node: Node): boolean {
  return source.comments.some(
    (comment) =>
      comment.type === 'Block' &&
      comment.value.startsWith('*') &&
      /[a-z]/i.test(comment.value) &&
      comment.end <= node.start &&
      source.text.slice(comment.end, node.start).trim() === '',
  )
}

/** The exports of a file's own: declared in place, or declared above and named in `export { … }`. */
function ownExports(source: Source): { node: Node; names: string[] }[] {
  const listed = new Set(
    source.body
      .filter((node) => node.type === 'ExportNamedDeclaration' && child(node, 'source') === undefined)
      .flatMap((node) => children(node, 'specifiers').map((specifier) => text(child(specifier, 'local'), 'name'))),
  )
  return source.body.flatMap((node) => {
    if (node.type === 'ExportDefaultDeclaration') return [{ node, names: ['default'] }]
    if (node.type === 'ExportNamedDeclaration') return [{ node, names: declaredNames(child(node, 'declaration')) }]
    return [{ node, names: declaredNames(node).filter((name) => listed.has(name)) }]
  })
}

/** One comment serves all overloads of a name. */
const exportsAreDocumented: Rule = (source) => {
  const own = ownExports(source)
  const documented = new Set(own.filter(({ node }) => isDocumented(source, node)).flatMap(({ names }) => names))
  const reported = new Set<string>()
  return own.flatMap(({ node, names }) =>
    names
      .filter((name) => !documented.has(name) && !reported.has(name))
      .map((name) => {
        reported.add(name)
        return at(source, node, `${name} is exported without a doc comment`)
      }),
  )
}

// ------------------------------------------------------------------------------------------------------ the house

const root = fileURLToPath(new URL('..', import.meta.url))

function sources(): Source[] {
  return readdirSync(`${root}/src`, { recursive: true, encoding: 'utf8' })
    .map((path) => path.split(sep).join('/'))
    .filter((path) => path.endsWith('.ts'))
    .toSorted()
    .map((path) => parse(path, readFileSync(`${root}/src/${path}`, 'utf8')))
}

const RULES: Readonly<Record<string, Rule>> = {
  'every file is on a floor': everyFileIsOnAFloor,
  'imports go down the floors': importsGoDown,
  'imports go down the wings of a floor': importsGoDownTheWings,
  'backends never meet, and only doors and choosers name one': backendsStayApart,
  'optional peers stay behind their door': optionalPeersStayBehindTheirDoor,
  'policy and jobs are pure': pureFloorsStayPure,
  'dates are made from numbers': datesAreMadeFromNumbers,
  'file names say what is inside': namesSayWhatIsInside,
  'replaced names stay away': replacedNamesStayAway,
  'there are no barrels outside exports': noBarrels,
  'every export has a doc comment': exportsAreDocumented,
}

describe('the sources', () => {
  const house = sources()

  it('are found where this file looks', () => {
    expect(house.map((source) => source.path)).toEqual(
      expect.arrayContaining(['base/errors.ts', 'policy/limits/limit.ts', 'cli/main.ts']),
    )
  })

  it.each(Object.entries(RULES))('%s', (_, rule) => {
    expect(house.flatMap(rule)).toEqual([])
  })

  it("are entered through the doors of package.json's exports, and no other", () => {
    const manifest = JSON.parse(readFileSync(`${root}/package.json`, 'utf8')) as { exports: Record<string, unknown> }
    const files = house
      .filter((source) => folderOf(source.path) === DOORS)
      .map((source) => posix.relative(DOORS, source.path))
    expect(doorsMatch(manifest.exports, files)).toEqual([])
  })
})

// --------------------------------------------------------------------------------------- the rules can fail, and pass

/** Runs a rule on one file made up for the purpose. */
function run(rule: Rule, path: string, content: string): string[] {
  return rule(parse(path, content))
}

describe('floors', () => {
  it('refuses a file on no floor', () => {
    expect(run(everyFileIsOnAFloor, 'claim.ts', '')).toHaveLength(1)
    expect(run(everyFileIsOnAFloor, 'attic/claim.ts', '')).toHaveLength(1)
    expect(run(everyFileIsOnAFloor, 'engine/claim.ts', '')).toEqual([])
  })

  it.each([
    ['an import from above', 'policy/a.ts', "import { x } from '../jobs/b.ts'"],
    ['a type from above', 'policy/a.ts', "import type { X } from '../engine/b.ts'"],
    ['an inline import type', 'base/a.ts', "type X = import('../engine/b.ts').X"],
    ['a re-export from above', 'base/a.ts', "export { x } from '../policy/b.ts'"],
    ['`export *` from above', 'base/a.ts', "export * from '../policy/b.ts'"],
    ['a dynamic import from above', 'base/a.ts', "await import('../policy/b.ts')"],
    ['a require from above', 'base/a.ts', "require('../policy/b.ts')"],
    ['another folder of the same floor', 'limiter/a.ts', "import { x } from '../database/b.ts'"],
    ['the same, the other way round', 'limiter/redis/a.ts', "import { x } from '../../store/b.ts'"],
    ['a door from inside', 'cli/a.ts', "import { x } from '../exports/index.ts'"],
    ['the test kit from the engine', 'engine/a.ts', "import { x } from '../testing/b.ts'"],
    ['the test kit from above the engine', 'http/a.ts', "import { x } from '../testing/b.ts'"],
    ['remote work from the engine', 'engine/a.ts', "import { x } from '../remote/b.ts'"],
    ['flows from the test kit', 'testing/a.ts', "import { x } from '../flows/b.ts'"],
    ['code outside src', 'engine/a.ts', "import { x } from '../../test/b.ts'"],
  ])('refuse %s', (_, path, content) => {
    expect(run(importsGoDown, path, content)).toHaveLength(1)
  })

  it.each([
    ['down', 'engine/a.ts', "import { x } from '../base/b.ts'"],
    ['sideways in a folder', 'store/sqlite/a.ts', "import { x } from '../contract/store.ts'"],
    ['a package', 'base/a.ts', "import { uuidv7 } from 'uuidv7'"],
    ['the engine from the test kit', 'testing/a.ts', "import { x } from '../engine/b.ts'"],
    ['anything from a door', 'exports/testing.ts', "export { x } from '../testing/b.ts'"],
  ])('allow %s', (_, path, content) => {
    expect(run(importsGoDown, path, content)).toEqual([])
  })

  it.each([
    ['a wing above', 'policy/rules/a.ts', "import { x } from '../limits/b.ts'"],
    ['a wing above, as a type', 'engine/define/a.ts', "import type { X } from '../run/b.ts'"],
    ['the file that stands above the wings', 'engine/run/a.ts', "import { x } from '../engine.ts'"],
    ['a file in no wing', 'policy/a.ts', ''],
  ])('refuse %s', (_, path, content) => {
    expect(run(importsGoDownTheWings, path, content)).toHaveLength(1)
  })

  it.each([
    ['a wing below', 'policy/limits/a.ts', "import { x } from '../rules/b.ts'"],
    ['the same wing', 'engine/run/a.ts', "import { x } from './b.ts'"],
    ['every wing from above them', 'engine/engine.ts', "import { x } from './api/b.ts'"],
    ['a floor below', 'engine/define/a.ts', "import { x } from '../../policy/forecast/b.ts'"],
  ])('allow %s', (_, path, content) => {
    expect(run(importsGoDownTheWings, path, content)).toEqual([])
  })

  it.each([
    ['the engine', 'engine/a.ts', "import { x } from '../store/sqlite/b.ts'"],
    ['the engine, through the database floor', 'engine/a.ts', "import { x } from '../database/sqlite.ts'"],
    ['the contract', 'store/contract/store.ts', "import { x } from '../sqlite/b.ts'"],
    ['another backend', 'store/postgres/a.ts', "import { x } from '../sqlite/b.ts'"],
    [
      'another backend, through the database floor',
      'store/postgres/a.ts',
      "import { x } from '../../database/sqlite.ts'",
    ],
    ['the engine, by its driver', 'engine/a.ts', "import { DatabaseSync } from 'node:sqlite'"],
    ['another backend, by its driver', 'limiter/redis/a.ts', "import { connect } from '@nats-io/transport-node'"],
  ])('keep a backend from %s', (_, path, content) => {
    expect(run(backendsStayApart, path, content)).toHaveLength(1)
  })

  it.each([
    ['itself', 'store/sqlite/a.ts', "import { x } from './b.ts'"],
    ['its own connection', 'store/sqlite/a.ts', "import { x } from '../../database/sqlite.ts'"],
    ['its own driver', 'limiter/redis/a.ts', "import { createClient } from 'redis'"],
    ['the file that chooses', 'store/open.ts', "import { x } from './sqlite/b.ts'"],
    ['the doors', 'exports/postgres.ts', "export { x } from '../store/postgres/b.ts'"],
  ])('show a backend to %s', (_, path, content) => {
    expect(run(backendsStayApart, path, content)).toEqual([])
  })

  it('keep optional peers behind their door', () => {
    const api = "import { trace } from '@opentelemetry/api'"
    const traced = "export { instrument } from '../telemetry/instrument.ts'"
    expect(run(optionalPeersStayBehindTheirDoor, 'engine/a.ts', api)).toHaveLength(1)
    expect(run(optionalPeersStayBehindTheirDoor, 'exports/index.ts', traced)).toHaveLength(1)
    expect(run(optionalPeersStayBehindTheirDoor, 'cli/a.ts', traced)).toHaveLength(1)
    expect(run(optionalPeersStayBehindTheirDoor, 'telemetry/a.ts', api)).toEqual([])
    expect(run(optionalPeersStayBehindTheirDoor, 'exports/opentelemetry.ts', traced)).toEqual([])
  })

  it('keep policy and jobs from the platform, but for hashing', () => {
    expect(run(pureFloorsStayPure, 'policy/a.ts', "import { readFileSync } from 'node:fs'")).toHaveLength(1)
    expect(run(pureFloorsStayPure, 'jobs/a.ts', 'export const x = process.pid')).toHaveLength(1)
    expect(run(pureFloorsStayPure, 'jobs/a.ts', "import { createHash } from 'node:crypto'")).toEqual([])
    expect(run(pureFloorsStayPure, 'engine/a.ts', "import { readFileSync } from 'node:fs'")).toEqual([])
  })
})

describe('language', () => {
  it.each(['new Date()', 'Date()'])('finds `%s` outside base', (content) => {
    expect(run(datesAreMadeFromNumbers, 'engine/a.ts', content)).toHaveLength(1)
    expect(run(datesAreMadeFromNumbers, 'base/a.ts', content)).toEqual([])
  })

  it('lets through a date made from a number, and words in text', () => {
    expect(run(datesAreMadeFromNumbers, 'engine/a.ts', "new Date(5); 'new Date()' // Date()")).toEqual([])
  })
})

describe('names and doors', () => {
  it.each(['const sift = 1', 'class A { #sift() {} }', 'type Sift = 1', 'a.sift()', 'const a: Met = b'])(
    'finds a name that was replaced: %s',
    (content) => {
      expect(run(replacedNamesStayAway, 'policy/a.ts', content)).toHaveLength(1)
    },
  )

  it('allows a name that only contains such a word, and the word in text', () => {
    expect(run(replacedNamesStayAway, 'policy/a.ts', "const sifted = 'sift', met = 1")).toEqual([])
  })

  it.each([
    'base/utils.ts',
    'base/time-helpers.ts',
    'engine/job-manager.ts',
    'common/a.ts',
    'store/sqlite/sql.util.ts',
  ])('refuses %s', (path) => {
    expect(run(namesSayWhatIsInside, path, '')).toHaveLength(1)
  })

  it('allows a name that only contains such a word', () => {
    expect(run(namesSayWhatIsInside, 'policy/uncommon-utilities.ts', '')).toEqual([])
  })

  it.each([
    ['an index file', 'store/index.ts', 'export const x = 1'],
    ['`export *`', 'store/a.ts', "export * from './b.ts'\nexport const x = 1"],
    ['nothing but re-exports', 'store/a.ts', "export { x } from './b.ts'\nexport type { Y } from './c.ts'"],
    ['nothing but imports exported again', 'store/a.ts', "import { x } from './b.ts'\nexport { x }"],
  ])('finds a barrel: %s', (_, path, content) => {
    expect(run(noBarrels, path, content)).toHaveLength(1)
  })

  it('allows doors to be barrels, and others to declare and export', () => {
    expect(run(noBarrels, 'exports/index.ts', "export { x } from '../store/b.ts'")).toEqual([])
    expect(run(noBarrels, 'store/a.ts', 'export interface A { readonly a: 1 }')).toEqual([])
    expect(run(noBarrels, 'cli/main.ts', "import { f } from './b.ts'\nf()")).toEqual([])
  })

  it('finds a door without a file, a file without a door, and a door to the wrong place', () => {
    const door = (name: string): unknown => ({
      types: `./dist/exports/${name}.d.ts`,
      default: `./dist/exports/${name}.js`,
    })
    const doors = { '.': door('index'), './testing': door('testing'), './package.json': './package.json' }
    expect(doorsMatch(doors, ['index.ts', 'testing.ts'])).toEqual([])
    expect(doorsMatch(doors, ['index.ts'])).toEqual(['"./testing" has no src/exports/testing.ts'])
    expect(doorsMatch(doors, ['index.ts', 'testing.ts', 'x.ts'])).toEqual(['src/exports/x.ts is not in "exports"'])
    expect(doorsMatch({ '.': door('main') }, ['index.ts'])).toHaveLength(1)
    expect(doorsMatch({ '.': { default: './dist/exports/index.js' } }, ['index.ts'])).toHaveLength(1)
  })
})

describe('documentation', () => {
  it.each([
    ['a constant', 'export const x = 1'],
    ['a function', 'export function f() {}'],
    ['a type', 'export type A = 1'],
    ['an interface', 'export interface A { readonly a: 1 }'],
    ['a class', 'export class A {}'],
    ['a default', 'export default 1'],
    ['a name exported later', 'const x = 1\nexport { x }'],
    ['a line comment', '// Says why.\nexport const x = 1'],
    ['an ordinary block', '/* Says why. */\nexport const x = 1'],
    ['an empty comment', '/** */\nexport const x = 1'],
    ['a comment on something else', '/** About y. */\nconst y = 1\nexport const x = y'],
    ['overloads', 'export function f(a: 1): 1\nexport function f(a: 2): 2\nexport function f(a: 1 | 2) { return a }'],
  ])('is missed on %s', (_, content) => {
    expect(run(exportsAreDocumented, 'base/a.ts', content)).toHaveLength(1)
  })

  it.each([
    ['the export', '/** What it is. */\nexport const x = 1'],
    ['the declaration of a name exported later', '/** What it is. */\nconst x = 1\nexport { x }'],
    [
      'the first overload',
      '/** What. */\nexport function f(a: 1): 1\nexport function f(a: 2): 2\nexport function f(a: 1 | 2) { return a }',
    ],
    ['the file that a re-export comes from', "export { x } from './b.ts'"],
    ['nothing, where nothing is exported', 'const x = 1\nfunction f() {}'],
  ])('is enough on %s', (_, content) => {
    expect(run(exportsAreDocumented, 'base/a.ts', content)).toEqual([])
  })
})
