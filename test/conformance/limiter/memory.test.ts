import { MemoryBackend } from '../../../src/limiter/memory/memory.ts'
import { createManualClock } from '../../../src/testing/manual-clock.ts'
import { limiterConformance } from './suite.ts'

limiterConformance('memory', async () => {
  const clock = createManualClock()
  const backend = new MemoryBackend(clock)
  return { backend, advance: (ms) => clock.advance(ms), close: () => backend.close() }
})
