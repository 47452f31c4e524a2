import { SluiceError } from '../../base/errors.ts'
import { checkOptions, show } from '../../base/options.ts'
import { CHANGES } from './changes.ts'
import { CORRECTIONS } from './corrections.ts'
import { PERMITS } from './permits.ts'
import { REQUESTS } from './requests.ts'
import { RESERVATIONS } from './reservations.ts'
import { RULES } from './rules.ts'
import { type Cases, type OpenBackend, Subject } from './subject.ts'

const GROUPS: Readonly<Record<string, Cases>> = {
  rules: RULES,
  requests: REQUESTS,
  permits: PERMITS,
  reservations: RESERVATIONS,
  corrections: CORRECTIONS,
  'changes of limits': CHANGES,
}

/** One case of the suite. */
export interface LimiterCase {
  /** The part of the contract that it is about. */
  readonly group: string
  readonly name: string
  /** Opens a backend, tries it and closes it. It rejects with an `AssertionError` where the backend is wrong. */
  run(open: OpenBackend): Promise<void>
}

/** The functions of a test framework: those of vitest, jest, mocha and node:test fit. */
export interface TestFramework {
  readonly describe: (name: string, body: () => void) => unknown
  readonly it: (name: string, body: () => Promise<void>) => unknown
}

/** Every case, in order, for a framework without `describe` and `it`. */
export function limiterCases(): readonly LimiterCase[] {
  return Object.entries(GROUPS).flatMap(([group, cases]) =>
    Object.entries(cases).map(([name, body]) => ({ group, name, run: (open) => runCase(open, body) })),
  )
}

/**
 * Registers the cases that every backend of limits must pass.
 * @param name the backend, as the report shows it
 * @param open opens a new backend for each case
 * @throws {SluiceError} `option.invalid`
 */
export function limiterSuite(name: string, open: OpenBackend, framework: TestFramework): void {
  checkOptions(framework, ['describe', 'it'], 'limiterSuite')
  const { describe, it } = framework
  for (const [part, value] of Object.entries({ open, describe, it }))
    if (typeof value !== 'function')
      throw new SluiceError(
        'option.invalid',
        `${part} of limiterSuite is invalid: ${show(value)}. Expected a function.`,
      )
  const cases = limiterCases()
  describe(`limits on ${name}`, () => {
    for (const group of Object.keys(GROUPS))
      describe(group, () => {
        for (const each of cases) if (each.group === group) it(each.name, () => each.run(open))
      })
  })
}

async function runCase(open: OpenBackend, body: (subject: Subject) => Promise<void>): Promise<void> {
  const opened = await open()
  try {
    await body(new Subject(opened))
  } finally {
    await opened.close()
  }
}
