import { describe, it } from 'vitest'
import { MemoryBackend } from '../../../src/limiter/memory/memory.ts'
import { createManualClock } from '../../../src/testing/manual-clock.ts'
import { limiterSuite } from '../../../src/exports/testing/limiter-suite.ts'

limiterSuite(
  'memory',
  async () => {
    const clock = createManualClock()
    const backend = new MemoryBackend(clock)
    return { backend, advance: (ms) => clock.advance(ms), close: () => backend.close() }
  },
  { describe, it },
)
