import { storeConformance } from '../conformance/store/suite.ts'
import { sqliteHarness } from './sqlite-harness.ts'

storeConformance(sqliteHarness('SQLite in memory', ':memory:'))
storeConformance(sqliteHarness('SQLite on a file', 'file'))
