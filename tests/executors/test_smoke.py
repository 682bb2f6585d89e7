from attempt_builders import *
async def test_smoke(start_local, reports, dags_folder):
    write_dag(dags_folder, '''
    def one():
        print("hello"); return {"a": 1}
    async def two(ti): 
        print("async hello"); ti.log.info("x"); return 2
    def three(): os._exit(3)
    def four(): os.kill(os.getpid(), 9)
    for f in (one,two,three,four): task(f)
    ''')
    ex = await start_local()
    import time
    t=time.time()
    atts=[attempt("one",number=1),attempt("two",is_async=True,number=2),attempt("three",number=3),attempt("four",number=4)]
    ex.submit(atts)
    for r in await reports.count(4): print(r)
    print(time.time()-t)
    for a in atts[:2]:
        from aiosched.executors.log_files import log_path
        print(log_path(dags_folder.parent/"logs", a).read_text())
