// The suite for backends of one's own has to catch a backend with a fault.
import { describe, expect, it } from 'vitest'
import type { LimitBackend } from '../../src/exports/limiter.ts'
import { limiterCases, limiterSuite, type OpenedBackend } from '../../src/exports/testing/limiter-suite.ts'
import { MemoryBackend } from '../../src/limiter/memory/memory.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'

type Fault = (backend: MemoryBackend) => Partial<LimitBackend>

function openWith(fault: Fault): OpenedBackend {
  const clock = createManualClock()
  const memory = new MemoryBackend(clock)
  const verbs = fault(memory)
  const backend = new Proxy<LimitBackend>(memory, {
    get(target, name) {
      if (Object.hasOwn(verbs, name)) return verbs[name as keyof LimitBackend]
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
  return { backend, advance: (ms) => clock.advance(ms), close: () => memory.close() }
}

async function failedGroups(fault: Fault): Promise<string[]> {
  const failed = new Set<string>()
  for (const each of limiterCases()) await each.run(() => openWith(fault)).catch(() => failed.add(each.group))
  return [...failed]
}

const FAULTS: Readonly<Record<string, readonly [string, Fault]>> = {
  'that names a wait a microsecond short': [
    'rules',
    (backend) => ({
      acquire: async (requests) =>
        (await backend.acquire(requests)).map((answer) =>
          answer.kind === 'denied' && answer.retryAfterUs !== null
            ? { ...answer, retryAfterUs: answer.retryAfterUs - 1 }
            : answer,
        ),
    }),
  ],
  'that forgets the second bucket of a request': [
    'requests',
    (backend) => ({
      acquire: (requests) => backend.acquire(requests.map((each) => ({ ...each, uses: each.uses.slice(0, 1) }))),
    }),
  ],
  'whose permits never come back': ['permits', () => ({ release: async () => undefined })],
  'that extends what has ended': ['permits', () => ({ extend: async () => [] })],
  'that loses its reservations': ['reservations', () => ({ confirm: async () => ({ kind: 'gone' as const }) })],
  'that gives no reservation back': ['reservations', () => ({ cancel: async () => true })],
  'that ignores penalties': ['corrections', () => ({ penalize: async () => true })],
  'that ignores the version of a limit': [
    'changes of limits',
    (backend) => ({ define: (limits) => backend.define(limits.map((each) => ({ ...each, version: 0 }))) }),
  ],
  'that takes any change': ['changes of limits', () => ({ change: async () => true })],
}

describe('the suite of the limiter', () => {
  it('passes a backend without a fault', async () => {
    expect(await failedGroups(() => ({}))).toEqual([])
  })

  it.each(Object.entries(FAULTS))('fails one %s', async (_, [group, fault]) => {
    expect(await failedGroups(fault)).toContain(group)
  })

  it('closes what it opened, after a failure too', async () => {
    let open = 0
    const counted = (fault: Fault) => (): OpenedBackend => {
      open++
      const opened = openWith(fault)
      return { ...opened, close: () => void open-- }
    }
    const [first] = limiterCases()
    await first?.run(counted(() => ({})))
    await first?.run(counted(() => ({ define: () => Promise.reject(new Error('broken')) }))).catch(() => undefined)
    expect(open).toBe(0)
  })

  it('registers every case with the functions that it is given', () => {
    const names: string[] = []
    const groups: string[] = []
    const describe = (name: string, body: () => void): void => {
      groups.push(name)
      body()
    }
    limiterSuite('mine', () => openWith(() => ({})), { describe, it: (name) => names.push(name) })
    expect(groups[0]).toBe('limits on mine')
    expect(names).toEqual(limiterCases().map(({ name }) => name))
    expect(new Set(names).size).toBe(names.length)
    expect(() => limiterSuite('mine', () => openWith(() => ({})), { describe, its: it } as never)).toThrow(/its/)
    expect(() => limiterSuite('mine', 5 as never, { describe, it: () => undefined })).toThrow(/open/)
  })
})
