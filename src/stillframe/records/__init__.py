"""Record-level view managers: a view as records in a store of records, kept by many managers at once.

log of changes -> entries (`entry`) -> touches of records -> programs (`program`, one view class a file)
-> requests (`requests`) -> a store (`store`): by a manager (`manager`) many at once, by the simulator
one at a time
"""
